// Sums, extrema and products of integers over some axes, wrapping around as T does.
//
// Grid: one work-item an element of y, n of them. table as of reduce_ref; function: 0 sum, 1 mean (towards zero), 2 max, 3 min,
// 4 prod, 5 sum of absolute values, 7 sum of squares. Exact where the result fits into T.
#ifndef T
  #define T int
#endif
#include "tensor.clh"

// v / count rounded down, and what is left of it.
static T floored(const T v, const long count, long* left) {
  long whole = (long)((ulong)v / (ulong)count);
  *left = (long)((ulong)v % (ulong)count);
  if (v < 0) {
    whole = (long)v / count, *left = (long)v % count;
    if (*left < 0) *left += count, whole--;
  }
  return (T)whole;
}

__kernel void reduce_int_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  __global const T* source = BASE_OF(const T, in0);
  const int kept = rest[0], count = rest[1], function = rest[2];
  coordinates(id, table, 0, kept, at);
  for (int axis = kept; axis < RANK; axis++) at[axis] = 0;
  T total = 0, product = 1, most = 0, least = 0;
  long rest_of_mean = 0, left = 0;
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    const T v = source[element(x, at)];
    total += function == 1 ? floored(v, count, &left) : function == 5 ? (v < 0 ? -v : v) : function == 7 ? v * v : v;
    rest_of_mean += left;
    product *= v;
    most = i == 0 || v > most ? v : most;
    least = i == 0 || v < least ? v : least;
  }
  if (function == 1) {
    total += (T)(rest_of_mean / count);
    total += total < 0 && rest_of_mean % count != 0;
  }
  const T r = function == 2 ? most : function == 3 ? least : function == 4 ? product : total;
  BASE_OF(T, out0)[element(y, at)] = r;
}
