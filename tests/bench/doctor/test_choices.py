import json

from lt2theory.bench.doctor.choices import Served, find_served
from lt2theory.mixers import MIXERS


def test_every_mixer_has_a_server_on_this_machine():
    for mixer in MIXERS:
        found = find_served(mixer, "cpu")
        assert (found.backend, found.dtype) == ("chunked", "float32")
        assert Served.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert dict(find_served("gdn", "cpu").passed_over)["fla"].startswith("its Triton kernels run")
