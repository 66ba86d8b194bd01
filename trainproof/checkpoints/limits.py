"""Bounds on what one checkpoint may make the reader hold or do."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Beyond any of these something is left unread, with the reason; it is never passed.

    Reading
      ``chunk``: bytes read at once. Half of a second-level cache: four reductions over it then
      run at cache speed, and smaller ones lose time to calls.
      ``rescan``: tensor bytes measured, as a multiple of the file. Views may overlap without
      end; a real file reads each byte once or, where weights are tied, twice.
      ``block``: views read one by one (strided ones), each costing a system call.

    Pickle
      ``pickle_bytes``: the largest seen is 60 MiB, of two million tensors.
      ``ops``: a tensor takes about 40 opcodes, so half a million tensors; five seconds.
      ``stack``, ``memo``, ``nodes``: about 100 bytes of memory each. A pickle of protocol 2
      memoizes nearly everything that it builds.
      ``text``: bytes of one string. ``line``: of one text argument (protocol 0).
      ``int_bytes``, ``digits``: larger numbers are kept as "large"; converting decimal digits
      takes quadratic time, and Python itself refuses more than 4,300.
      ``globals``: distinct imported names. ``pickles``: one after another in one file.

    Object graph
      ``visits``: steps through the graph; one shared object is entered once, so the graph itself
      is bounded by ``nodes``. ``depth``: a nesting no training state comes near to.
      ``characters``: of all names together; a deep place under long keys has a long one.
      ``names``: other places remembered for one shared object. ``dims``: torch allows 64.
      ``scalars``, ``unread``, ``defects``: kept for the report; ``label``: characters of a key,
      ``value``: of a text value.

    ZIP
      ``entries`` and ``directory``: a directory entry is at least 46 bytes; half a million
      storages take about 150 MB here. ``inflate``: bytes of one compressed entry that is held
      whole, ``ratio``: of sizes, from which on a compressed entry is a bomb (deflate reaches
      1,032). ``entry_name``: bytes. ``unpacked``: bytes read of all entries together, besides
      ``rescan`` times the file: entries may overlap, and inflate.

    Headers
      ``header``: bytes of a safetensors header, the reference library's own limit; ``json_depth``
      of nesting. ``strings``: bytes of one GGUF string, ``items``: of one of its arrays.

    Other formats
      ``tensors``: listed one by one, where each takes some 30 microseconds; the largest seen are
      models of XGBoost, with 14 arrays a tree. ``fields``: values of one document of MessagePack,
      UBJSON or protocol buffers, ``numbers``: bytes of variable-length ones that are taken apart
      for one tensor, ``node``: bytes of an ONNX node that are searched before it is taken apart.
      ``document``: bytes of JSON. ``table_block``: of a table of TensorFlow.
      ``object_header``, ``object_blocks``: bytes and blocks of one HDF5 object's header,
      ``object_depth`` of its groups; ``chunk_unpacked``: bytes of one of its chunks, ``band``: of
      the rows that a row of chunks holds, which are put together. ``chunks`` of all arrays of HDF5
      or Zarr in a file, and nodes of a database of OCDBT: 30 microseconds each; ``keys``: bytes of
      all its keys. ``unpack_memory``: what unpacking xz may take.
      ``levels`` of files inside of files, and ``level_unpacked`` bytes that each may unpack beyond
      its own size.
    """

    chunk: int = 1 << 20
    rescan: int = 4
    block: int = 200_000

    pickle_bytes: int = 256 << 20
    ops: int = 20_000_000
    stack: int = 1_000_000
    memo: int = 4_000_000
    nodes: int = 4_000_000
    text: int = 64 << 20
    line: int = 64 << 10
    int_bytes: int = 1024
    digits: int = 4300
    globals: int = 10_000
    pickles: int = 1000

    visits: int = 6_000_000
    depth: int = 200
    names: int = 16
    dims: int = 64
    characters: int = 256 << 20
    scalars: int = 4096
    unread: int = 256
    defects: int = 256
    label: int = 500
    value: int = 200

    entries: int = 500_000
    directory: int = 256 << 20
    inflate: int = 64 << 20
    ratio: int = 1100
    entry_name: int = 4096
    unpacked: int = 1 << 30

    header: int = 100_000_000
    json_depth: int = 8
    strings: int = 64 << 20
    items: int = 10_000_000

    tensors: int = 120_000
    fields: int = 1_000_000
    numbers: int = 1 << 20
    node: int = 64 << 10
    document: int = 64 << 20
    table_block: int = 64 << 20
    object_header: int = 4 << 20
    object_blocks: int = 1000
    object_depth: int = 64
    chunk_unpacked: int = 32 << 20
    band: int = 64 << 20
    chunks: int = 100_000
    keys: int = 32 << 20
    unpack_memory: int = 64 << 20
    levels: int = 2
    level_unpacked: int = 16 << 20


LIMITS = Limits()
