// Elements of x put at their flat indices in y, whose elements were zeros before; an index outside of y is left out.
//
// Grid: one work-item an element of x, n of them. table: dims, views of x and the indices, axes of y, then the size and the
// pitch of each. T is any type of the element's size.
#ifndef T
  #define T uint
#endif
#include "tensor.clh"

__kernel void max_unpool_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* x = table + RANK;
  __global const int* indices = x + VIEW;
  __global const int* rest = indices + VIEW;
  long left = BASE_OF(const long, in1)[element(indices, at)];
  int to = rest[1];
  if (left < 0) return;
  for (int axis = rest[0] - 1; axis >= 0; axis--) {
    const int size = rest[2 + 2 * axis];
    to += (int)(left % size) * rest[3 + 2 * axis];
    left /= size;
  }
  if (left == 0) BASE_OF(T, out0)[to] = BASE_OF(const T, in0)[element(x, at)];
}
