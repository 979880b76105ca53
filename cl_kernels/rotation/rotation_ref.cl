// Each pair (a, b) of a row's first features becomes (a cos - b sin, b cos + a sin), those behind stay; then the
// post-operations, on float, half or double tensors.
//
// Grid: one work-item an element, n of them. The last axis counted is that of the row. table: dims, views of y, x, cos and
// sin, which have no pitch along the row; pairs, whether they are neighbours, pitches of cos and sin from pair to pair.
// Error: a rounding each of two products and their sum, relative to |a cos| + |b sin|, then that of each post-operation.
#include "tensor.clh"

__kernel void rotation_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table,
                           POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* cosines = x + VIEW;
  __global const int* sines = cosines + VIEW;
  __global const int* rest = sines + VIEW;
  const int pairs = rest[0], neighbours = rest[1], i = at[RANK - 1];
  __global const T* here = BASE_OF(const T, in0) + element(x, at);
  REAL r = LOAD(here, 0);
  if (i < 2 * pairs) {
    const int second = neighbours ? i % 2 : i >= pairs, pair = neighbours ? i / 2 : i - second * pairs;
    const int other = (neighbours ? 1 : pairs) * (second ? -1 : 1);
    const REAL c = LOAD(BASE_OF(const T, in1), element(cosines, at) + pair * rest[2]);
    const REAL s = LOAD(BASE_OF(const T, in2), element(sines, at) + pair * rest[3]);
    const REAL beside = LOAD(here, other * x[RANK]) * s;
    r = r * c + (second ? beside : -beside);
  }
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
