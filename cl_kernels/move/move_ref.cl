// y[view] = x[view]: copies elements between two views; transposes, slices, parts, repetitions, broadcasts.
//
// Grid: one work-item an element, n of them. table: dims, view of y, view of x. T is any type of the element's size.
#ifndef T
  #define T uint
#endif
#include "tensor.clh"

__kernel void move_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  BASE_OF(T, out0)[element(table + RANK, at)] = BASE_OF(const T, in0)[element(table + RANK + VIEW, at)];
}
