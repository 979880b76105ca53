// Batched product of matrices with bias and post-operations for GPUs: tiles in local memory, 16 sums a work-item.
//
// y[..., m, n] = sum over k of a[..., m, k] b[..., k, n], plus bias; float or half tensors of any pitches.
// Grid: (tiles of n * 16, tiles of m * 16, batch), groups of 16 x 16; a group makes 64 x 64 results, 16 k at a time.
// Arguments: table: dims (batch..., m, n), views of y, a (of k = 0, pitch 0 along n), b (of k = 0, pitch 0 along m) and
// bias, k, pitches of a and b along k, whether there is a bias.
// Error: (min(k, SUMMED) + k / SUMMED) 2^-24 sum |a b|, accumulated in float in the order of k, SUMMED products at a time,
// plus the post-operations'.
#include "tensor.clh"

#define TILE 64
#define STEP 16
#define PER 4
#define SUMMED 1024

__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void matmul_gpu_tiled(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  __local float rows[STEP][TILE + 1];
  __local float columns[STEP][TILE + 1];
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  __global const int* bias = b + VIEW;
  __global const int* rest = bias + VIEW;
  const int m = table[RANK - 2], n = table[RANK - 1], count = rest[0];
  const int tx = get_local_id(0), ty = get_local_id(1), local_id = ty * 16 + tx;
  const int m0 = get_group_id(1) * TILE, n0 = get_group_id(0) * TILE;
  int at[RANK];
  coordinates(get_global_id(2), table, 0, RANK - 2, at);
  at[RANK - 2] = 0;
  at[RANK - 1] = 0;
  __global const T* left = BASE_OF(const T, in0) + element(a, at);
  __global const T* right = BASE_OF(const T, in1) + element(b, at);
  float sums[PER][PER], totals[PER][PER];
  for (int i = 0; i < PER; i++)
    for (int j = 0; j < PER; j++) sums[i][j] = totals[i][j] = 0.0f;
  for (int k0 = 0; k0 < count; k0 += STEP) {
    for (int i = 0; i < PER; i++) {
      const int row = local_id / STEP + 16 * i, k = k0 + local_id % STEP;
      rows[local_id % STEP][row] =
          m0 + row < m && k < count ? LOAD(left, (m0 + row) * a[RANK - 1] + k * rest[1]) : 0.0f;
      const int column = local_id % TILE, down = local_id / TILE + PER * i;
      columns[down][column] =
          n0 + column < n && k0 + down < count ? LOAD(right, (n0 + column) * b[RANK] + (k0 + down) * rest[2]) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < STEP; k++) {
      float p[PER], q[PER];
      for (int i = 0; i < PER; i++) p[i] = rows[k][ty + 16 * i];
      for (int j = 0; j < PER; j++) q[j] = columns[k][tx + 16 * j];
      for (int i = 0; i < PER; i++)
        for (int j = 0; j < PER; j++) sums[i][j] = fma(p[i], q[j], sums[i][j]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if ((k0 + STEP) % SUMMED == 0 || k0 + STEP >= count)
      for (int i = 0; i < PER; i++)
        for (int j = 0; j < PER; j++) {
          totals[i][j] += sums[i][j];
          sums[i][j] = 0.0f;
        }
  }
  for (int i = 0; i < PER; i++)
    for (int j = 0; j < PER; j++) {
      at[RANK - 2] = m0 + ty + 16 * i;
      at[RANK - 1] = n0 + tx + 16 * j;
      if (at[RANK - 2] < m && at[RANK - 1] < n) {
        const float sum = totals[i][j] + (rest[3] ? LOAD(BASE_OF(const T, in2), element(bias, at)) : 0.0f);
        STORE(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
      }
    }
}
