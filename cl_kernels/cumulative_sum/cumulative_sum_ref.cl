// Running sums, or products, along one axis.
//
// Grid: one work-item a line along the axis, n of them. table: dims of the other axes, views of y and x (of index 0),
// size of the axis, pitches of y and x along it (negative from the end), whether the element itself is left out, whether
// products are made. V is the type summed in (default float). Error: k * 2^-24 * sum |x| for sums of k elements, k * 2^-24
// relative for products; integers wrap around.
#include "tensor.clh"

#ifndef V
  #define V REAL
#endif

__kernel void cumulative_sum_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  __global T* target = BASE_OF(T, out0) + element(y, at);
  const int product = rest[4];
  V sum = product;
  for (int i = 0; i < rest[0]; i++) {
    const V v = LOAD(source, i * rest[2]);
    const V whole = product ? sum * v : sum + v;
    STORE(target, i * rest[1], rest[3] ? sum : whole);
    sum = whole;
  }
}
