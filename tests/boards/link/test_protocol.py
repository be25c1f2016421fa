"""Frames: their bytes, how they are found in a damaged stream, and which errors the CRC always detects."""

import random
import zlib

import numpy as np
import pytest

from tq_hw.boards.link import protocol
from tq_hw.boards.link.protocol import ANSWER_SYNC, REQUEST_SYNC, Answer, Command, Identity, Receiver, Request, Result

WRITE = Request(Command.WRITE_REGISTERS, 5, 0x1234, 4, 8, bytes([1, 0, 0, 0]))


def fed(receiver: Receiver, data: bytes) -> list[Request | Answer | bytes]:
    return [found for byte in data if (found := receiver.feed(byte)) is not None]


def test_frames_are_as_the_page_says() -> None:
    body = bytes.fromhex("21 05 3412 0400 08000000 01000000")
    assert WRITE.to_bytes() == b"\x54\x51" + body + zlib.crc32(body).to_bytes(4, "little")
    body = bytes.fromhex("00 05 3412 0200 aabb")
    assert Answer(Result.OK, 5, 0x1234, b"\xaa\xbb").to_bytes() == b"\x54\x41" + body + zlib.crc32(body).to_bytes(
        4, "little")


def test_frames_are_found_between_other_bytes() -> None:
    answer = Answer(Result.OK, 1, 2, bytes(range(256)))
    assert fed(Receiver(REQUEST_SYNC), b"TTTQ"[:2] + WRITE.to_bytes() + b"\0TT" + WRITE.to_bytes()) == [WRITE, WRITE]
    assert fed(Receiver(ANSWER_SYNC), WRITE.to_bytes() + answer.to_bytes()) == [answer]


def test_a_damaged_frame_gives_its_body_and_the_next_one_is_found() -> None:
    frame = bytearray(WRITE.to_bytes())
    frame[-6] ^= 1
    assert fed(Receiver(REQUEST_SYNC), bytes(frame) + WRITE.to_bytes()) == [bytes(frame[2:-4]), WRITE]


def test_a_size_beyond_the_largest_ends_the_frame_at_once() -> None:
    receiver = Receiver(REQUEST_SYNC)
    assert fed(receiver, Request(Command.WRITE_MEMORY, 1, 2, 257, 0).to_bytes()[:12]) == []
    assert not receiver.in_frame
    assert fed(receiver, WRITE.to_bytes()) == [WRITE]


def test_identity_survives_the_transfer() -> None:
    identity = Identity(1, 2, 0x300, 0x400, 5, 6)
    assert Identity.from_bytes(identity.to_bytes()) == identity
    with pytest.raises(ValueError, match="^an identity has 24 bytes, not 23$"):
        Identity.from_bytes(identity.to_bytes()[1:])
    with pytest.raises(ValueError, match="^clock_hz must be more than 0$"):
        Identity.from_bytes(identity.to_bytes()[:-4] + bytes(4))


def test_up_to_four_flipped_bits_are_always_detected() -> None:
    """Two pairs of flips never cancel, since all pairs have different effects on the CRC of the longest frame."""
    body_bytes = 10 + protocol.MOST_BYTES + protocol.CRC_BYTES
    single = []
    for bit in range(8 * (body_bytes - protocol.CRC_BYTES)):
        body = bytearray(body_bytes - protocol.CRC_BYTES)
        body[bit // 8] = 1 << bit % 8
        single.append(zlib.crc32(bytes(body)) ^ zlib.crc32(bytes(len(body))))
    single += [1 << bit for bit in range(32)]
    effects = np.array(single, np.uint32)
    assert len(set(single)) == len(single) and 0 not in single
    first, second = np.triu_indices(len(effects), 1)
    pairs = np.sort(effects[first] ^ effects[second])
    assert np.all(pairs[1:] != pairs[:-1]), "four flips can cancel"
    assert not np.isin(effects, pairs).any(), "three flips can cancel"


def test_random_damage_is_detected() -> None:
    rng = random.Random(4)
    for _ in range(2000):
        good = Request(Command.WRITE_MEMORY, 7, 9, 16, 0, rng.randbytes(16))
        frame = bytearray(good.to_bytes())
        at = rng.randrange(len(frame))
        kind = rng.randrange(3)
        if kind == 0:
            del frame[at]
        elif kind == 1:
            frame.insert(at, rng.randrange(256))
        else:
            frame[at] ^= rng.randrange(1, 256)
        found = fed(Receiver(REQUEST_SYNC), bytes(frame))
        # A byte inserted before or after the frame leaves it intact.
        assert all(isinstance(one, bytes) or one == good for one in found)


def test_memory_has_whole_pages() -> None:
    with pytest.raises(ValueError, match=r"^memory must begin and end at multiples of 256 below 2\^32, not 0x80 and "
                                         r"0x1000 bytes$"):
        Identity(1, 2, 0x80, 0x1000, 256, 1)
