// y[b..., i..., j...] = x[b..., indices[b..., i..., 0], indices[b..., i..., 1], ..., j...]; a negative coordinate counts
// from the back, then it is clamped.
//
// Grid: one work-item an element of y, n of them. table: dims, view of y, view of x (pitch 0 along the axes i), view of the
// indices (of the first coordinate; pitch 0 along the axes j), coordinates, pitch from one to the next, then size and
// pitch of each axis of x that they are for. INDEX is the indices' type, T any type of the element's size.
#ifndef T
  #define T uint
#endif
#include "tensor.clh"

#ifndef INDEX
  #define INDEX long
#endif

__kernel void gather_nd_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* indices = x + VIEW;
  __global const int* rest = indices + VIEW;
  __global const INDEX* row = BASE_OF(const INDEX, in1) + element(indices, at);
  int from = element(x, at);
  for (int i = 0; i < rest[0]; i++) {
    const long size = rest[2 + 2 * i], wanted = row[i * rest[1]];
    from += (int)clamp(wanted < 0 ? wanted + size : wanted, 0L, size - 1) * rest[3 + 2 * i];
  }
  BASE_OF(T, out0)[element(y, at)] = BASE_OF(const T, in0)[from];
}
