"""`adlfs`, through which fsspec, and so pandas, Dask and others, see the service as a file system."""

import os
import random
import subprocess
import sys

import pytest
from adlfs import AzureBlobFileSystem

import server as servers

TREE = {
    "a.txt": b"a", "b.csv": b"1,2\n", "dir/c.txt": b"ccc", "dir/d.csv": b"3,4\n", "dir/deep/e.txt": b"e" * 1000,
    "dir/deep/er/f g+\u00fc.txt": b"f", "other/h": b"",
}


def connect(connection, **options):
    # Not an instance that another test had, with what it remembers of listings.
    return AzureBlobFileSystem(connection_string=connection, skip_instance_cache=True, **options)


@pytest.fixture
def fs(endpoint):
    return connect(servers.connection_string(endpoint))


@pytest.fixture
def box(container):
    return container.container_name


@pytest.fixture
def tree(fs, box):
    fs.pipe({f"{box}/{name}": content for name, content in TREE.items()})
    return box


def below(box, names):
    return sorted(f"{box}/{name}" for name in names)


def test_containers_are_directories(fs, tools):
    name = tools.fresh_name()
    assert not fs.exists(name)
    fs.mkdir(name)
    assert fs.exists(name) and fs.isdir(name)
    fs.makedirs(f"{name}/a/b", exist_ok=True)
    with pytest.raises(FileExistsError):
        fs.mkdir(name, exist_ok=False)
    assert name in [one.rstrip("/") for one in fs.ls("")]
    assert fs.ls(name) == []
    fs.rmdir(name)
    assert not fs.exists(name)


def test_round_trips(fs, box, tmp_path):
    for size in (0, 1, 4096, 300_000):
        content = os.urandom(size)
        fs.pipe_file(f"{box}/dir/{size}", content)
        assert fs.cat_file(f"{box}/dir/{size}") == content
        assert fs.size(f"{box}/dir/{size}") == size
    with pytest.raises(FileExistsError):
        fs.pipe_file(f"{box}/dir/1", b"other", mode="create")
    with pytest.raises(FileNotFoundError):
        fs.cat_file(f"{box}/absent")

    content = os.urandom(2_000_000)
    (tmp_path / "one").write_bytes(content)
    fs.put(str(tmp_path / "one"), f"{box}/put/one")
    fs.get(f"{box}/put/one", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content
    fs.get(f"{box}/dir", str(tmp_path / "all"), recursive=True)
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["0", "1", "300000", "4096"]
    fs.put(str(tmp_path / "all"), f"{box}/again", recursive=True)
    assert len(fs.find(f"{box}/again")) == 4


def test_parts(fs, box):
    content = os.urandom(100_000)
    path = f"{box}/b"
    fs.pipe_file(path, content)
    for start, end in [(0, 1), (10, 1000), (99_999, None), (None, 5), (50_000, 90_000)]:
        assert fs.cat_file(path, start=start, end=end) == content[start:end]
    starts = [n * 777 for n in range(100)]
    assert fs.cat_ranges([path] * 100, starts, [at + 50 for at in starts]) == [content[at:at + 50] for at in starts]
    assert fs.head(path, 10) == content[:10] and fs.tail(path, 10) == content[-10:]
    assert fs.read_block(path, 100, 200) == content[100:300]


def test_looking_around(fs, tree):
    assert sorted(fs.ls(tree, detail=False)) == below(tree, ["a.txt", "b.csv", "dir", "other"])
    assert sorted(fs.ls(f"{tree}/dir", detail=False)) == below(tree, ["dir/c.txt", "dir/d.csv", "dir/deep"])
    assert sorted(fs.find(tree)) == below(tree, TREE)
    assert sorted(fs.find(tree, prefix="dir/de")) == below(tree, [name for name in TREE if name.startswith("dir/de")])
    assert sorted(fs.glob(f"{tree}/*.csv")) == below(tree, ["b.csv"])
    assert sorted(fs.glob(f"{tree}/**/*.csv")) == below(tree, ["b.csv", "dir/d.csv"])
    assert sorted(fs.glob(f"{tree}/dir/*")) == below(tree, ["dir/c.txt", "dir/d.csv", "dir/deep"])
    walked = {root: (sorted(dirs), sorted(files)) for root, dirs, files in fs.walk(tree)}
    assert walked[tree] == (["dir", "other"], ["a.txt", "b.csv"])
    assert walked[f"{tree}/dir/deep"] == (["er"], ["e.txt"])
    assert len(walked) == 5
    assert fs.du(tree) == sum(map(len, TREE.values()))

    info = fs.info(f"{tree}/dir/deep/e.txt")
    assert (info["type"], info["size"]) == ("file", 1000)
    assert info["etag"] and fs.modified(f"{tree}/a.txt") >= fs.created(f"{tree}/a.txt")
    assert fs.info(f"{tree}/dir")["type"] == "directory"
    for path, is_file, is_directory in [("a.txt", True, False), ("dir", False, True), ("dir/deep", False, True), ("di", False, False)]:
        path = f"{tree}/{path}"
        assert (fs.isfile(path), fs.isdir(path), fs.exists(path)) == (is_file, is_directory, is_file or is_directory)
    with pytest.raises(FileNotFoundError):
        fs.info(f"{tree}/absent")


def test_removing(fs, tree):
    fs.rm_file(f"{tree}/a.txt")
    fs.rm(f"{tree}/b.csv")
    assert sorted(fs.find(tree)) == below(tree, [name for name in TREE if "/" in name])
    fs.rm(f"{tree}/dir", recursive=True)
    assert fs.find(tree) == below(tree, ["other/h"])
    assert not fs.exists(f"{tree}/dir")
    with pytest.raises(FileNotFoundError):
        fs.rm_file(f"{tree}/a.txt")
    fs.rm(tree, recursive=True)
    assert not fs.exists(tree)


@pytest.mark.parametrize("block", [4096, 100_000, 1 << 22])
def test_open_files(endpoint, box, block):
    """Written and read with blocks of several sizes: one block, many, and a last one that is short."""
    fs = connect(servers.connection_string(endpoint), blocksize=block)
    path, content = f"{box}/file", os.urandom(250_001)
    with fs.open(path, "wb", block_size=block) as file:
        for at in range(0, len(content), 33_333):
            file.write(content[at:at + 33_333])
        assert not fs.exists(path), "nothing is there before it is closed"
    assert fs.cat_file(path) == content
    with fs.open(path, "rb", block_size=block) as file:
        draw = random.Random(block)
        for _ in range(20):
            at, size = draw.randrange(len(content)), draw.randrange(1, 20_000)
            file.seek(at)
            assert file.read(size) == content[at:at + size]
        file.seek(-5, 2)
        assert file.read() == content[-5:]
    with fs.open(path, "wb") as file:
        pass
    assert fs.size(path) == 0


def test_open_texts_and_exclusively(fs, box):
    with fs.open(f"{box}/t.txt", "w", encoding="utf-8") as file:
        file.write("h\u00e9llo\nthere\n")
    with fs.open(f"{box}/t.txt", "r", encoding="utf-8") as file:
        assert file.readlines() == ["h\u00e9llo\n", "there\n"]
    with fs.open(f"{box}/once", "xb") as file:
        file.write(b"first")
    with pytest.raises(FileExistsError):
        with fs.open(f"{box}/once", "xb") as file:
            file.write(b"second")
    assert fs.cat_file(f"{box}/once") == b"first"


def test_appending(fs, box, container):
    for word in (b"one ", b"two ", b"three"):
        with fs.open(f"{box}/log", "ab") as file:
            file.write(word)
    assert fs.cat_file(f"{box}/log") == b"one two three"
    assert container.get_blob_client("log").get_blob_properties().blob_type == "AppendBlob"


def test_metadata(fs, box):
    fs.pipe_file(f"{box}/b", b"x")
    fs.setxattrs(f"{box}/b", colour="blue")
    assert fs.getxattr(f"{box}/b", "colour") == "blue"


def test_copying_and_moving(fs, tree):
    fs.cp(f"{tree}/a.txt", f"{tree}/copied/a.txt")
    assert fs.cat_file(f"{tree}/copied/a.txt") == b"a"
    fs.cp(f"{tree}/dir/", f"{tree}/copy", recursive=True)
    assert sorted(fs.find(f"{tree}/copy")) == below(tree, ["copy" + name[3:] for name in TREE if name.startswith("dir/")])
    fs.mv(f"{tree}/b.csv", f"{tree}/moved.csv")
    assert fs.cat_file(f"{tree}/moved.csv") == TREE["b.csv"]
    assert not fs.exists(f"{tree}/b.csv")
    with pytest.raises(FileNotFoundError):
        fs.cp(f"{tree}/absent", f"{tree}/nowhere")


def smoke(fs, name):
    fs.mkdir(name)
    fs.pipe_file(f"{name}/dir/a b", b"hello")
    with fs.open(f"{name}/blocks", "wb", block_size=4096) as file:
        file.write(b"0123456789" * 1000)
    assert fs.cat_file(f"{name}/blocks", start=9_995) == b"56789"
    assert sorted(fs.find(name)) == [f"{name}/blocks", f"{name}/dir/a b"]
    fs.rm(name, recursive=True)
    print("as expected")


def test_host_style(endpoint, tools):
    port = endpoint.split(":")[2].split("/")[0]
    smoke(connect(servers.connection_string(f"http://{servers.ACCOUNT}.blob.localhost:{port}")), tools.fresh_name())


def test_https(start, certificate, tools):
    """In a process of its own: which certificates are trusted is settled when the client is loaded."""
    running = start(tls=certificate)
    done = subprocess.run([sys.executable, __file__, servers.connection_string(running.endpoint), tools.fresh_name()],
                          env=os.environ | {"SSL_CERT_FILE": str(certificate[0])}, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "as expected\n"), done.stdout + done.stderr


if __name__ == "__main__":
    smoke(connect(sys.argv[1]), sys.argv[2])
