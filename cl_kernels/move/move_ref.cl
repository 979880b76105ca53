// y[view] = x[view]: copies elements between two views; transposes, slices, parts, repetitions, broadcasts.
//
// MOVED   any type of the element's size; neighbouring elements that are moved together are one of up to 16 bytes
// Grid: one work-item an element, n of them. table: dims, view of y, view of x.
#ifndef MOVED
  #define MOVED uint
#endif
#include "tensor.clh"

__kernel void move_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  BASE_OF(MOVED, out0)[element(table + RANK, at)] = BASE_OF(const MOVED, in0)[element(table + RANK + VIEW, at)];
}
