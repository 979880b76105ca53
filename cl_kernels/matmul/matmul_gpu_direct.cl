// Batched product of matrices with bias and post-operations for GPUs without local memory of their own.
//
// Matrices, the table and its meaning as in matmul_gpu_vectors; B_BY_ROW as there. Grid: one work-item for 4 columns of 4
// rows, count of them, the columns first: neighbours read the same rows of a, which lie in the cache.
// Error: k * 2^-24 * sum |a b|, accumulated in float in the order of k, plus the post-operations'.
#include "vectors.clh"

#ifndef B_BY_ROW
  #define B_BY_ROW 1
#endif
#define ROWS 4

__kernel void matmul_gpu_direct(const int count, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0),
                                __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= count) return;
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  __global const int* bias = b + VIEW;
  __global const int* rest = bias + VIEW;
  const int m = table[RANK - 2], n = table[RANK - 1];
  const int n0 = id % (n / 4) * 4, m0 = id / (n / 4) % ((m + ROWS - 1) / ROWS) * ROWS;
  int at[RANK];
  coordinates(id / (n / 4) / ((m + ROWS - 1) / ROWS), table, 0, RANK - 2, at);
  at[RANK - 2] = 0;
  at[RANK - 1] = 0;
  __global const T* left = BASE_OF(const T, in0) + element(a, at);
  __global const T* right = BASE_OF(const T, in1) + element(b, at);
  float4 sums[ROWS];
  for (int i = 0; i < ROWS; i++) sums[i] = (float4)(0.0f);
  for (int k = 0; k < rest[0]; k += 4) {
#if B_BY_ROW
    __global const T* from = right + k * rest[1] + n0;
    const float4 w0 = LOAD4(from, 0), w1 = LOAD4(from, rest[1]), w2 = LOAD4(from, 2 * rest[1]),
                 w3 = LOAD4(from, 3 * rest[1]);
#else
    __global const T* from = right + n0 * b[RANK] + k;
    const float4 c0 = LOAD4(from, 0), c1 = LOAD4(from, b[RANK]), c2 = LOAD4(from, 2 * b[RANK]),
                 c3 = LOAD4(from, 3 * b[RANK]);
    const float4 w0 = (float4)(c0.x, c1.x, c2.x, c3.x), w1 = (float4)(c0.y, c1.y, c2.y, c3.y);
    const float4 w2 = (float4)(c0.z, c1.z, c2.z, c3.z), w3 = (float4)(c0.w, c1.w, c2.w, c3.w);
#endif
    for (int i = 0; i < ROWS; i++) {
      const float4 v = LOAD4(left, min(m0 + i, m - 1) * a[RANK - 1] + k);
      sums[i] = fma((float4)(v.x), w0, sums[i]);
      sums[i] = fma((float4)(v.y), w1, sums[i]);
      sums[i] = fma((float4)(v.z), w2, sums[i]);
      sums[i] = fma((float4)(v.w), w3, sums[i]);
    }
  }
  at[RANK - 1] = n0;
  for (int i = 0; i < ROWS && m0 + i < m; i++) {
    at[RANK - 2] = m0 + i;
    float4 sum = sums[i];
    if (rest[2]) sum += vector_operand(BASE_OF(const T, in2), element(bias, at), bias[RANK]);
    STORE4(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
  }
}
