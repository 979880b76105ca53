// The floats of a matrix of 2, 4 or 8 bits that has a scale a block: [depth][columns].
//
// Grid: one work-item a word of a column that exists, n of them; neighbours read neighbouring words of a record.
// table: columns, depth, bits, block, bytes of a record, whether it has zero points. Records as in block_matmul_ref.cl.
// Error: 2^-24 of each, and its rounding to T.
#define RANK 1
#include "tensor.clh"
#define COLUMNS 64

__kernel void unpack_records(const int n, TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int columns = table[0], depth = table[1], bits = table[2], block = table[3];
  const int fields = 32 / bits, pieces = block / fields, blocks = (depth + block - 1) / block;
  const int column = id % columns, lane = column % COLUMNS, piece = id / columns % pieces, b = id / columns / pieces;
  __global const uchar* record = BASE_OF(const uchar, in1) + ((long)(column / COLUMNS) * blocks + b) * table[4];
  __global const uint* words = (__global const uint*)record + lane;
  const uint word = words[piece * COLUMNS];
  const float scale = as_float(words[pieces * COLUMNS]);
  const int zero = table[5] ? record[4 * COLUMNS * (pieces + 1) + lane] : 1 << (bits - 1);
  const int first = b * block + piece * fields;
  for (int i = 0; i < fields && first + i < depth; i++) {
    const int q = word >> (8 * (i % 4) + bits * (i / 4)) & ((1u << bits) - 1);
    STORE(BASE_OF(T, out0), (long)(first + i) * columns + column, (float)(q - zero) * scale);
  }
}
