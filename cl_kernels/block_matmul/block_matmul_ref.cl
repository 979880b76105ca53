// Product of a matrix of floats and one of 2, 4 or 8 bits that has a scale a block, with bias and post-operations.
//
// y[..., n] = sum over k of a[..., k] (q[k, n] - zero[k / block, n]) scale[k / block, n], plus bias. Grid: one work-item
// an element of y, n of them. in1 holds records as in clgraph/ops/block_records.py: of 64 columns, [pieces][64] words of
// 32 bits, [64] scales, [64] zero points in bytes.
// table: dims of y, views of y, a (of k = 0), bias and the column's number, k, bits, block, bytes of a record, whether it
// has zero points, pitch of a along k, whether there is a bias.
// Error: (block + blocks + 2) 2^-24 sum |a w|, accumulated in float, a block at a time, plus the post-operations'.
#include "tensor.clh"
#define COLUMNS 64

__kernel void block_matmul_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0),
                               __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* bias = a + VIEW;
  __global const int* columns = bias + VIEW;
  __global const int* rest = columns + VIEW;
  const int depth = rest[0], bits = rest[1], block = rest[2], bytes = rest[3];
  const int fields = 32 / bits, blocks = (depth + block - 1) / block, pieces = block / fields;
  const int column = element(columns, at), lane = column % COLUMNS;
  __global const T* row = BASE_OF(const T, in0) + element(a, at);
  __global const uchar* record = BASE_OF(const uchar, in1) + (long)(column / COLUMNS) * blocks * bytes;
  float sum = rest[6] ? LOAD(BASE_OF(const T, in2), element(bias, at)) : 0.0f;
  for (int first = 0; first < depth; first += block, record += bytes) {
    __global const uint* words = (__global const uint*)record + lane;
    const float scale = as_float(words[pieces * COLUMNS]);
    const int zero = rest[4] ? record[4 * COLUMNS * (pieces + 1) + lane] : 1 << (bits - 1);
    const int count = min(block, depth - first);
    float part = 0.0f;
    for (int k = 0; k < count; k++) {
      const int field = k % fields;
      const uint q = words[k / fields * COLUMNS] >> (8 * (field % 4) + bits * (field / 4)) & ((1u << bits) - 1);
      part = fma(LOAD(row, (first + k) * rest[5]), (float)((int)q - zero), part);
    }
    sum = fma(part, scale, sum);
  }
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
}
