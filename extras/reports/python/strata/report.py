# SPDX-License-Identifier: Apache-2.0
"""python -m strata.report: the program strata-report."""

import sys

from strata.reports.cli import main

if __name__ == "__main__":
    sys.exit(main())
