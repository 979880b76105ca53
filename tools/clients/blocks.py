# needs: pymupdf-layout==1.28.2
"""Tell titles, tables, lists and footers of a PDF's page: a network over the graph of its lines, others of pictures."""

import pymupdf.layout

pymupdf.layout.activate()
page = pymupdf.open().new_page()
page.insert_text((72, 80), "A Title of the Page", fontsize=24)
for line in range(8):
    page.insert_text((72, 120 + 14 * line), "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod.")
for cell in range(12):
    row, column = divmod(cell, 3)
    box = pymupdf.Rect(72 + column * 120, 280 + row * 25, 192 + column * 120, 305 + row * 25)
    page.draw_rect(box)
    page.insert_text((box.x0 + 4, box.y0 + 17), f"cell {row} {column}", fontsize=10)
for line in range(6):
    page.insert_text((72, 420 + 14 * line), f"- list item {line} of things")
page.insert_text((72, 780), "Footer, page 1", fontsize=9)
page.get_layout()
for *corners, kind in page.layout_information:
    print(kind, [round(x, 1) for x in corners])
