"""Read result.xml without the suite, with Python alone: ``python read_result_xml.py RUN/result.xml``."""

import sys
from xml.etree import ElementTree

root = ElementTree.parse(sys.argv[1]).getroot()  # your own file; a stranger's needs a parser like defusedxml
dut, run = root.find("dut"), root.find("run")
print(f"{dut.get('model')}, firmware {dut.get('firmware')}: {run.get('verdict')}")
for deviation in root.iterfind("deviation"):
    print(f"deviation: {deviation.get('what')}: {deviation.get('actual')}")
for round_ in root.iterfind("loop/round"):
    for point in round_.iterfind("measurement"):
        print(round_.get("number"), point.get("block_size_bytes"), point.get("read_percent"), point.get("iops"))
