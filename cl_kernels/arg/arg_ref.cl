// The index along one axis of the largest or smallest element, as a 64-bit integer.
//
// Grid: one work-item an element of y, n of them. table: dims, view of y, view of x (of index 0), size and pitch of the
// axis, whether the smallest is wanted, whether the last of equal ones. T is the type in memory, V the one compared in
// (default float). A NaN is larger and smaller than everything.
#include "tensor.clh"

#ifndef V
  #define V REAL
#endif

__kernel void arg_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  V best = LOAD(source, 0);
  int found = 0;
  for (int i = 1; i < rest[0]; i++) {
    const V v = LOAD(source, i * rest[1]);
    const int better = rest[2] ? v < best : v > best;
    const int first_nan = v != v && best == best, equal = v == best || (v != v && best != best);
    if ((better && best == best) || first_nan || (equal && rest[3])) {
      best = v;
      found = i;
    }
  }
  BASE_OF(long, out0)[element(y, at)] = found;
}
