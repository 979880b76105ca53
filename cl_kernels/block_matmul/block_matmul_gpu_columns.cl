// Product of few rows and a matrix of 2, 4 or 8 bits that has a scale a block, for GPUs: a group makes 64 columns of ROWS rows.
//
// Grid: (groups of 64 columns * 64, SLICES * runs of ROWS rows), groups of 64 x SLICES. A work-item adds up every SLICES-th
// block of its column; neighbours read neighbouring words of a record; local memory adds the slices up. Arguments, table
// and records as in block_matmul_ref.cl.
// ROWS (1), SLICES (4): rows of a group, work-items of a column.
// Error: (block + blocks + 2 + SLICES) 2^-24 sum |a w|, accumulated in float, a block at a time, plus the
// post-operations'.
#include "tensor.clh"
#define COLUMNS 64
#ifndef ROWS
  #define ROWS 1
#endif
#ifndef SLICES
  #define SLICES 4
#endif

__kernel __attribute__((reqd_work_group_size(COLUMNS, SLICES, 1))) void block_matmul_gpu_columns(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  __local float parts[SLICES][ROWS][COLUMNS];
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* bias = a + VIEW;
  __global const int* columns = bias + VIEW;
  __global const int* rest = columns + VIEW;
  const int depth = rest[0], bits = rest[1], block = rest[2], bytes = rest[3], zeros = rest[4], step = rest[5];
  const int fields = 32 / bits, blocks = (depth + block - 1) / block, pieces = block / fields;
  const int lane = get_local_id(0), slice = get_local_id(1), column = get_group_id(0) * COLUMNS + lane;
  const int first = get_group_id(1) * ROWS;
  int rows = 1;
  for (int axis = 0; axis < RANK - 1; axis++) rows *= table[axis];
  __global const T* row[ROWS];
  int at[RANK];
  at[RANK - 1] = 0;
  float sum[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    coordinates(min(first + r, rows - 1), table, 0, RANK - 1, at);
    row[r] = BASE_OF(const T, in0) + element(a, at);
    sum[r] = 0.0f;
  }
  __global const uchar* records = BASE_OF(const uchar, in1) + (long)get_group_id(0) * blocks * bytes;
  for (int b = slice; b < blocks; b += SLICES) {
    __global const uchar* record = records + (long)b * bytes;
    __global const uint* words = (__global const uint*)record + lane;
    const float scale = as_float(words[pieces * COLUMNS]);
    const int zero = zeros ? record[4 * COLUMNS * (pieces + 1) + lane] : 1 << (bits - 1);
    float part[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) part[r] = 0.0f;
    for (int p = 0; p < pieces; p++) {
      const uint word = words[p * COLUMNS];
      for (int i = 0; i < fields; i++) {
        const int k = b * block + p * fields + i;
        const float q = (float)((int)(word >> (8 * (i % 4) + bits * (i / 4)) & ((1u << bits) - 1)) - zero);
#pragma unroll
        for (int r = 0; r < ROWS; r++) part[r] = fma(k < depth ? LOAD(row[r], k * step) : 0.0f, q, part[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r] = fma(part[r], scale, sum[r]);
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) parts[slice][r][lane] = sum[r];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (slice || column >= table[RANK - 1]) return;
  for (int r = 0; r < ROWS && first + r < rows; r++) {
    float total = parts[0][r][lane];
    for (int s = 1; s < SLICES; s++) total += parts[s][r][lane];
    coordinates(first + r, table, 0, RANK - 1, at);
    at[RANK - 1] = column;
    if (rest[6]) total += LOAD(BASE_OF(const T, in2), element(bias, at));
    STORE(BASE_OF(T, out0), element(y, at), POST_ALL(total, at));
  }
}
