// x with the first lengths[i] elements along one of its first two axes in reverse order, for each i of the other.
//
// Grid: one work-item an element, n of them; RANK counts the two axes, then the others. table: dims, views of y and x, which
// of the first two axes is reversed, pitch of the lengths. T is any type of the element's size.
#ifndef T
  #define T uint
#endif
#include "tensor.clh"

__kernel void reverse_sequence_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  const int time = rest[0], place = at[time];
  const long length = BASE_OF(const long, in1)[at[1 - time] * rest[1]];
  const int to = element(y, at);
  if (place < length) at[time] = (int)min(length, (long)table[time]) - 1 - place;
  BASE_OF(T, out0)[to] = BASE_OF(const T, in0)[element(x, at)];
}
