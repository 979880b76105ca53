// Batched product of matrices with bias and post-operations for GPUs: tiles in local memory, loads of four elements.
//
// y[..., m, n] = sum over k of a[..., m, k] b[..., k, n], plus bias; float or half tensors. k lies behind one another in a,
// n in y; n lies behind one another in b, or k where B_BY_ROW is 0 (default 1). k and n are multiples of 4.
// Grid: (tiles of n * 16, tiles of m * 16, batch), groups of 16 x 16; a group makes 64 ROWS x 64 COLUMNS results, 16 k at
// a time (ROWS, COLUMNS: 1 or 2, default 1).
// table: dims (batch..., m, n), views of y, a (of k = 0, pitch 0 along n), b (of k = 0, pitch 0 along m) and bias, k,
// pitch of b along k, whether there is a bias.
// Error: k * 2^-24 * sum |a b|, accumulated in float in the order of k, plus the post-operations'.
#include "vectors.clh"
#include "gemm_tile.clh"

#ifndef B_BY_ROW
  #define B_BY_ROW 1
#endif

__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void matmul_gpu_vectors(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  __local float4 rows[STEP * ROWS_PITCH];
  __local float4 columns[STEP * COLUMNS_PITCH];
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  __global const int* bias = b + VIEW;
  __global const int* rest = bias + VIEW;
  const int m = table[RANK - 2], n = table[RANK - 1], count = rest[0];
  const int tx = get_local_id(0), ty = get_local_id(1), local_id = ty * 16 + tx;
  const int m0 = get_group_id(1) * GEMM_ROWS, n0 = get_group_id(0) * GEMM_COLUMNS;
  int at[RANK];
  coordinates(get_global_id(2), table, 0, RANK - 2, at);
  at[RANK - 2] = 0;
  at[RANK - 1] = 0;
  __global const T* left = BASE_OF(const T, in0) + element(a, at);
  __global const T* right = BASE_OF(const T, in1) + element(b, at);
  const int row = local_id / 4, unit = local_id % 4 * 4;
  float4 sums[4 * ROWS][COLUMNS];
  gemm_clear(sums);
  for (int k0 = 0; k0 < count; k0 += STEP) {
    for (int r = 0; r < ROWS; r++) {
      const int there = m0 + row + 64 * r < m && k0 + unit < count;
      const float4 v = there ? LOAD4(left, (m0 + row + 64 * r) * a[RANK - 1] + k0 + unit) : (float4)(0.0f);
      gemm_turn(rows + unit * ROWS_PITCH, row + 64 * r, GEMM_ROWS, v);
    }
    for (int c = 0; c < COLUMNS; c++) {
#if B_BY_ROW
      const int k = k0 + local_id / 16, column = n0 + local_id % 16 * 4 + 64 * c;
      columns[local_id / 16 * COLUMNS_PITCH + local_id % 16 + 16 * c] =
          k < count && column < n ? LOAD4(right, k * rest[1] + column) : (float4)(0.0f);
#else
      const int there = n0 + row + 64 * c < n && k0 + unit < count;
      const float4 v = there ? LOAD4(right, (n0 + row + 64 * c) * b[RANK] + k0 + unit) : (float4)(0.0f);
      gemm_turn(columns + unit * COLUMNS_PITCH, row + 64 * c, GEMM_COLUMNS, v);
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    gemm_multiply(sums, rows, columns, ty, tx);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < GEMM_SUMS; i++, gemm_move_up(sums)) {
    const int r = i / COLUMNS;
    at[RANK - 2] = m0 + 4 * ty + r % 4 + r / 4 * 64;
    at[RANK - 1] = n0 + 4 * tx + i % COLUMNS * 64;
    if (at[RANK - 2] >= m || at[RANK - 1] >= n) continue;
    float4 sum = sums[0][0];
    if (rest[2]) sum += vector_operand(BASE_OF(const T, in2), element(bias, at), bias[RANK]);
    STORE4(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
  }
}
