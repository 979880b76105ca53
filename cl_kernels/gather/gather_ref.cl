// y[..., i, ...] = x[..., indices[i], ...] along one axis; a negative index counts from the back, then it is clamped.
//
// Grid: one work-item an element of y, n of them. table: dims, view of y, view of x (pitch 0 along the axes of the
// indices), view of the indices (pitch 0 elsewhere), size and pitch of the gathered axis. INDEX is the indices' type,
// MOVED any type of the element's size; neighbours that are picked together are one element of up to 16 bytes.
#ifndef MOVED
  #define MOVED uint
#endif
#include "tensor.clh"

#ifndef INDEX
  #define INDEX long
#endif

__kernel void gather_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* indices = x + VIEW;
  const long size = indices[VIEW], wanted = BASE_OF(const INDEX, in1)[element(indices, at)];
  const int index = (int)clamp(wanted < 0 ? wanted + size : wanted, 0L, size - 1);
  BASE_OF(MOVED, out0)[element(y, at)] = BASE_OF(const MOVED, in0)[element(x, at) + index * indices[VIEW + 1]];
}
