// Batched product of matrices with bias and post-operations, on tensors of floats.
//
// y[..., m, n] = sum over k of a[..., m, k] b[..., k, n], plus bias. Grid: one work-item an element of y, n of them.
// table: dims of y, views of y, a (of k = 0; pitch 0 along n), b (of k = 0; pitch 0 along m) and bias, k, pitches of a
// and b along k, whether there is a bias.
// Error: (min(k, SUMMED) + k / SUMMED) 2^-24 sum |a b|, accumulated in float, SUMMED products at a time, plus the
// post-operations'.
#include "tensor.clh"
#define SUMMED 1024

__kernel void matmul_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table,
                         POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  __global const int* bias = b + VIEW;
  __global const int* rest = bias + VIEW;
  __global const T* row = BASE_OF(const T, in0) + element(a, at);
  __global const T* column = BASE_OF(const T, in1) + element(b, at);
  REAL sum = rest[3] ? LOAD(BASE_OF(const T, in2), element(bias, at)) : 0.0f;
  for (int done = 0; done < rest[0]; done += SUMMED) {
    const int end = min(done + SUMMED, rest[0]);
    REAL part = 0.0f;
    for (int k = done; k < end; k++) part = fma(LOAD(row, k * rest[1]), LOAD(column, k * rest[2]), part);
    sum += part;
  }
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
}
