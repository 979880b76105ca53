// Batched product of matrices of integers with bias, wrapping around as T does.
//
// y[..., m, n] = sum over k of a[..., m, k] b[..., k, n], plus bias. Grid: one work-item an element of y, n of them.
// table as of matmul_ref. Exact modulo 2^(bits of T).
#ifndef T
  #define T int
#endif
#include "tensor.clh"

__kernel void matmul_int_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table) {
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
  ulong sum = rest[3] ? (ulong)BASE_OF(const T, in2)[element(bias, at)] : 0;
  for (int k = 0; k < rest[0]; k++) sum += (ulong)row[k * rest[1]] * (ulong)column[k * rest[2]];
  BASE_OF(T, out0)[element(y, at)] = (T)sum;
}
