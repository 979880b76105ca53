// The k best elements along an axis, best first, and their places: an element's rank is the number of better ones; of equal
// ones the first is better, and a NaN is greater than any number.
//
// Grid: one work-item an element, n of them; neighbours read the same line. RANK counts the other axes, then the axis.
// table: dims, views of x, y and the places (pitch 0 along the axis), its size, k, whether the greatest are best, then its
// pitches in x, y and the places.
// T, LOAD, STORE as in tensor.clh; V the type that is compared (default float).
// Exact.
#include "tensor.clh"

#ifndef V
  #define V REAL
#endif

static int greater(const V a, const V b) { return (a != a && b == b) || a > b; }

__kernel void top_k_gpu_ranks(const int n, TENSOR(in0), TENSOR(out0), TENSOR(out1), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* x = table + RANK;
  __global const int* y = x + VIEW;
  __global const int* places = y + VIEW;
  __global const int* rest = places + VIEW;
  __global const T* line = BASE_OF(const T, in0) + element(x, at);
  const int own = at[RANK - 1];
  const V v = LOAD(line, own * rest[3]);
  int rank = 0;
  for (int i = 0; i < rest[0]; i++) {
    const V other = LOAD(line, i * rest[3]);
    const int better = rest[2] ? greater(other, v) : greater(v, other);
    const int worse = rest[2] ? greater(v, other) : greater(other, v);
    rank += better || (!worse && i < own);
  }
  if (rank >= rest[1]) return;
  STORE(BASE_OF(T, out0), element(y, at) + rank * rest[4], v);
  BASE_OF(long, out1)[element(places, at) + rank * rest[5]] = own;
}
