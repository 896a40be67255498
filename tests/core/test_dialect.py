"""What models write, made into Markdown and boxes."""

import pytest

from inboxd.core import dialect

PAGE = (1000, 2000)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"so \$x^2\$ grows", "so $x^2$ grows"),
        (r"where \$n\$ counts", "where $n$ counts"),
        (r"\$\frac{a}{b}\$ and \$y_1\$", r"$\frac{a}{b}$ and $y_1$"),
        (r"\$\text{if the price}\$", r"$\text{if the price}$"),
        (r"between \$5 and \$6", r"between \$5 and \$6"),
        (r"from \$5 = the old price to \$6", r"from \$5 = the old price to \$6"),
        (r"\$5\$", r"\$5\$"),
        ("$x^2$ stays", "$x^2$ stays"),
    ],
)
def test_escaped_formulas_become_formulas_and_prices_stay_prices(written: str, meant: str) -> None:
    assert dialect.read(written, "lightonocr", *PAGE, 0.9) == (meant, ())


def test_a_plain_model_is_left_alone_but_for_composed_characters() -> None:
    assert dialect.read("  e\N{COMBINING ACUTE ACCENT} 1½ \\$x^2\\$\n", "plain", *PAGE, 0.9) == ("é 1½ \\$x^2\\$", ())


def test_places_of_figures_become_boxes() -> None:
    text, boxes = dialect.read("one ![image](image_1.png)100,50,900,250\n\ntwo", "lightonocr-bbox", *PAGE, 0.9)
    assert text == "one ![image](image_1.png)\n\ntwo"
    (box,) = boxes
    assert (box.text, box.confidence) == ("image", 0.9)
    assert (box.x0, box.y0, box.x1, box.y1) == (100, 100, 900, 500)


def test_a_figure_without_a_place_is_left_as_it_is() -> None:
    assert dialect.read("![image](image_1.png)", "lightonocr-bbox", *PAGE, 0.9) == ("![image](image_1.png)", ())


def test_blocks_become_paragraphs_and_boxes() -> None:
    written = "![title](10,10,500,40) # Title\n![text](10,50,990,300) It begins\n![text+](10,310,990,400)\nand goes on."
    text, boxes = dialect.read(written, "lightonocr-grounding", *PAGE, 0.9)
    assert text == "# Title\n\nIt begins and goes on."
    assert [box.text for box in boxes] == ["# Title", "It begins", "and goes on."]
    assert boxes[0].y1 == 80


def test_a_place_beyond_the_page_ends_at_its_edge() -> None:
    _, (box,) = dialect.read("![text](0,0,9999,1000) all", "lightonocr-grounding", *PAGE, 0.9)
    assert (box.x1, box.y1) == PAGE


def test_text_before_the_first_block_is_kept() -> None:
    text, boxes = dialect.read("stray ![text](0,0,10,10) block", "lightonocr-grounding", *PAGE, 0.9)
    assert text == "stray\n\nblock" and len(boxes) == 1
    assert dialect.read("no blocks at all", "lightonocr-grounding", *PAGE, 0.9) == ("no blocks at all", ())
