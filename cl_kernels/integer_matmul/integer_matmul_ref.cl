// Batched product of matrices of 8-bit integers, each less its zero point, in int.
//
// y[..., m, n] = sum over k of (a[..., m, k] - a_zero) (b[..., k, n] - b_zero). Grid: one work-item an element of y, n of
// them. table: dims of y, views of y, a (of k = 0; pitch 0 along n), b (of k = 0; pitch 0 along m) and the zero points of
// a and b, then k, pitches of a and b along k.
// A, B, ZERO_A, ZERO_B   types of a, b and their zero points (default uchar)
// Exact, modulo 2^32.
#include "integers.clh"
#include "tensor.clh"

__kernel void integer_matmul_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(out0),
                                 __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  __global const int* a_zero = b + VIEW;
  __global const int* b_zero = a_zero + VIEW;
  __global const int* rest = b_zero + VIEW;
  __global const A* row = BASE_OF(const A, in0) + element(a, at);
  __global const B* column = BASE_OF(const B, in1) + element(b, at);
  const int less_a = BASE_OF(const ZERO_A, in2)[element(a_zero, at)];
  const int less_b = BASE_OF(const ZERO_B, in3)[element(b_zero, at)];
  int sum = 0;
  for (int k = 0; k < rest[0]; k++) sum += (row[k * rest[1]] - less_a) * (column[k * rest[2]] - less_b);
  BASE_OF(int, out0)[element(y, at)] = sum;
}
