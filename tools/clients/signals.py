# needs: atspm-detector duckdb<1.4 pandas<3 pyarrow
"""Tell what each detector of a road signal is for, by the log of its events: boosted trees and small networks."""

from pathlib import Path

import atspm_detector
import pandas as pd

events = pd.read_parquet(Path(atspm_detector.__file__).parent / "data" / "sample_events.parquet")
found, phases = atspm_detector.predict(events, return_phases=True)
with pd.option_context("display.max_columns", None, "display.width", 250, "display.max_rows", None):
    print(found.round(4).to_string())
    print(phases.round(4).to_string())
