"""A file that is a link: the message says where it leads."""

import pytest

from tq_hw.model.errors import ModelError
from tq_hw.model.tflite.reader import read_model


def test_says_where_a_link_leads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tflite").symlink_to("gone.tflite")
    for name, hint in (("net.tflite", "; it is a link to gone.tflite, which does not exist"), ("nett.tflite", "")):
        with pytest.raises(ModelError) as caught:
            read_model(name)
        assert str(caught.value) == f"{name}: cannot read the file: No such file or directory{hint}"
