// y = (x - mean) * scale / sqrt(variance + epsilon) + bias, with post-operations, on tensors of floats.
//
// Grid: one work-item an element, n of them. table: dims, views of y, x, scale, bias, mean and variance.
// Error: 6 * 2^-24 * (|x - mean| |scale| / deviation + |bias|), plus the post-operations'.
// S, M (T)  types of scale and bias, of mean and variance, read by LOAD_S and LOAD_M.
#include "tensor.clh"

#ifndef S
  #define S T
  #define LOAD_S LOAD
#endif
#ifndef M
  #define M T
  #define LOAD_M LOAD
#endif

__kernel void batch_normalization_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(in4),
                                      TENSOR(out0), __global const int* table, const float epsilon, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  const REAL x = LOAD(BASE_OF(const T, in0), element(y + VIEW, at));
  const REAL scale = LOAD_S(BASE_OF(const S, in1), element(y + 2 * VIEW, at));
  const REAL bias = LOAD_S(BASE_OF(const S, in2), element(y + 3 * VIEW, at));
  const REAL mean = LOAD_M(BASE_OF(const M, in3), element(y + 4 * VIEW, at));
  const REAL variance = LOAD_M(BASE_OF(const M, in4), element(y + 5 * VIEW, at));
  const REAL r = fma(x - mean, scale / sqrt(variance + epsilon), bias);
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
