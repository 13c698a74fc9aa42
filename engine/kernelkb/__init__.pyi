from kernelkb.api import bench as bench
from kernelkb.api import diagnose as diagnose
from kernelkb.api import occupancy as occupancy
from kernelkb.api import read_report as read_report
from kernelkb.api import recommend as recommend
from kernelkb.api import roofline as roofline

__version__: str
