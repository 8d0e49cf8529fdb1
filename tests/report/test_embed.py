"""Images inside the page."""

import base64
import xml.etree.ElementTree as ElementTree

import numpy as np
from matplotlib.figure import Figure

from lt2theory.report.embed import data_uri


def scatter():
    figure = Figure(figsize=(4, 3))
    figure.subplots().plot(np.arange(50), np.cos(np.arange(50)), "o")
    return figure


def test_small_drawings_are_svg_and_reproducible():
    address = data_uri(scatter())
    kind, _, payload = address.partition(",")
    assert kind == "data:image/svg+xml;base64"
    root = ElementTree.fromstring(base64.b64decode(payload))
    assert root.tag.endswith("svg")
    assert address == data_uri(scatter())


def test_svg_refers_to_nothing_outside_itself():
    svg = base64.b64decode(data_uri(scatter()).partition(",")[2])
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        for name, value in element.attrib.items():
            if name.rpartition("}")[2] in {"href", "src"}:
                assert value.startswith("#")


def test_large_drawings_are_png():
    address = data_uri(scatter(), svg_limit=100)
    kind, _, payload = address.partition(",")
    assert kind == "data:image/png;base64"
    image = base64.b64decode(payload)
    assert image.startswith(b"\x89PNG")
    assert int.from_bytes(image[16:20]) == 4 * 200
