"""Limits how often a password may be tried."""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from .sessions import boot_clock

#: Attempts that are allowed, and in how many seconds: those from one address, and those for one user from anywhere.
ADDRESS_LIMIT, USER_LIMIT = (10, 600.0), (50, 3600.0)
#: At most this many addresses and names are remembered; the oldest are forgotten first.
_MAX_KEYS = 10_000
_IPV6_NETWORK_BITS = 64


@dataclass(slots=True)
class Attempts:
    """The recent attempts to log in.  An attempt counts before the password is compared, so that parallel ones do."""

    clock: Callable[[], float] = boot_clock
    _times: dict[tuple[str, str], deque[float]] = field(default_factory=dict)

    def wait_seconds(self, address: str, name: str) -> int:
        """Count an attempt and return 0, or return how many seconds to wait before the next one."""
        now, waits = self.clock(), [0]
        keys = {("address", _network(address)): ADDRESS_LIMIT, ("user", name.casefold()): USER_LIMIT}
        for key, (most, seconds) in keys.items():
            times = self._times.get(key, deque())
            while times and now - times[0] >= seconds:
                times.popleft()
            if len(times) >= most:
                waits.append(max(1, ceil(times[0] + seconds - now)))
        if max(waits) == 0:
            for key in keys:
                times = self._times.pop(key, deque())
                times.append(now)
                self._times[key] = times  # at the end: the keys are in the order of their last attempt
            for key in list(self._times)[: max(0, len(self._times) - _MAX_KEYS)]:
                del self._times[key]
        return max(waits)

    def forget(self, address: str, name: str) -> None:
        """Forget the attempts of an address and a user: a login succeeded."""
        self._times.pop(("address", _network(address)), None)
        self._times.pop(("user", name.casefold()), None)


def _network(address: str) -> str:
    """Return the address, or the network of an IPv6 address, because a host has all addresses of its network."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((ip, _IPV6_NETWORK_BITS), strict=False)) if ip.version == 6 else str(ip)
