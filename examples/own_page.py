"""A report page of your own: the verdict and every point as HTML: ``python own_page.py RUN PAGE.html``."""

import sys
from html import escape
from pathlib import Path

import snia_pts as pts

run = pts.load(sys.argv[1])
matrix = run.window_matrix("iops")
sizes, mixes = matrix.axes["block_size_bytes"], matrix.axes["read_percent"]
rows = [f"<tr><th>KiB</th>{''.join(f'<th>{mix} % reads</th>' for mix in mixes)}</tr>"]
for size, values in zip(sizes, matrix.values, strict=True):
    rows.append(f"<tr><th>{size / 1024:g}</th>{''.join(f'<td>{value:,.0f}</td>' for value in values)}</tr>")
notes = [f"<li>{escape(f'{item.what}: {item.actual}')}</li>" for item in run.deviations]
Path(sys.argv[2]).write_text(
    f"<!doctype html><meta charset='utf-8'><title>{escape(run.device.model)}</title>"
    f"<h1>{escape(run.device.summary)}</h1><p>{escape(run.verdict)}</p>"
    f"<table>{''.join(rows)}</table><h2>Deviations</h2><ul>{''.join(notes)}</ul>",
    encoding="utf-8",
)
