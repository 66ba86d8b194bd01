"""Calibration: how often the rules are wrong, on trainings that really happen here.

Hundreds of small models are trained with numpy, some of them with a fault put in; the logs are
written in the formats people use and audited end to end. Whether a training was healthy is judged
on a third split that no log shows.

    python -m benchmarks.calibration            measure everything, write CALIBRATION.md
    python -m benchmarks.calibration --check    a small sample, against the recorded bounds
"""

import os

for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")  # read when numpy is loaded
