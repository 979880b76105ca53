// Updates written into a cache along an axis from each batch's place on, into a y that is a copy of the cache.
//
// Grid: one work-item an element of the updates, n of them; RANK counts their axes, the batch first. table: dims, views of y
// and the updates, which axis is written along, its size and pitch in y, whether what is beyond its end goes on at the front,
// pitch of the places, or -1 where there are none and all are 0. Without that, an update outside is left out.
// T is any type of the element's size; INDEX the places'.
#ifndef T
  #define T uint
#endif
#include "tensor.clh"

#ifndef INDEX
  #define INDEX long
#endif

__kernel void tensor_scatter_ref(const int n, TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* updates = y + VIEW;
  __global const int* rest = updates + VIEW;
  const int axis = rest[0], size = rest[1], from = element(updates, at);
  long place = at[axis];
  if (rest[4] >= 0) place += (long)BASE_OF(const INDEX, in2)[at[0] * rest[4]];
  if (rest[3]) place = (place % size + size) % size;
  if (place < 0 || place >= size) return;
  at[axis] = 0;
  BASE_OF(T, out0)[element(y, at) + (int)place * rest[2]] = BASE_OF(const T, in1)[from];
}
