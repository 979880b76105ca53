// y[view] = one value, given as the low and high 32 bits of its bytes.
//
// Grid: one work-item an element, n of them. table: dims, view of y. T is any unsigned type of the element's size.
#ifndef T
  #define T uint
#endif
#include "tensor.clh"

__kernel void fill_ref(const int n, TENSOR(out0), __global const int* table, const int low, const int high) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  BASE_OF(T, out0)[element(table + RANK, at)] = (T)(((ulong)(uint)high << 32) | (uint)low);
}
