// Interpolation along every axis by lists of taps, with post-operations, on tensors of floats.
//
// Grid: one work-item an element of y, n of them. table: dims of y, views of y and x, then for each axis the place in
// `taps` of its first and how many an output coordinate has. taps: input coordinate and bits of the weight, TAP numbers, of each.
// An element of weight 0 counts nothing, NaN or not.
// SUM, ADDED, RESULT: what is added up in, one more term of it, and what is stored; of elements that are picked,
// themselves.
// Error: (taps along all axes + their number) * 2^-24 * sum |weight x|.
#include "tensor.clh"

#define TAP (1 + PARAMETER_INTS)
#define WEIGHT(tap) PARAMETER((tap) + 1, 0)
#ifndef SUM
  #define SUM REAL
  #define ADDED(weight, x, sum) fma(weight, x, sum)
  #define RESULT POST_ALL
#endif

__kernel void resize_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table, __global const int* taps,
                         POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  __global const T* source = BASE_OF(const T, in0);
  // Axes of one tap have it in common; the last of the others is the inner loop.
  int many[RANK], axes = 0, combinations = 1, first = x[0];
  REAL common = 1.0f;
  for (int axis = 0; axis < RANK; axis++) {
    const int count = rest[2 * axis + 1];
    __global const int* tap = taps + rest[2 * axis] + TAP * at[axis] * count;
    if (count > 1) many[axes++] = axis, combinations *= count;
    else first += tap[0] * x[axis + 1], common *= WEIGHT(tap);
  }
  const int inner = axes ? many[axes - 1] : 0, each = axes ? rest[2 * inner + 1] : 1, pitch = axes ? x[inner + 1] : 0;
  __global const int* along = taps + rest[2 * inner] + TAP * at[inner] * each;
  SUM sum = 0;
  for (int outer = 0; outer < combinations / each; outer++) {
    int left = outer, from = first;
    REAL weight = common;
    for (int i = axes - 2; i >= 0; i--) {
      const int axis = many[i], count = rest[2 * axis + 1], above = left / count;
      __global const int* tap = taps + rest[2 * axis] + TAP * (at[axis] * count + left - above * count);
      left = above;
      from += tap[0] * x[axis + 1];
      weight *= WEIGHT(tap);
    }
    for (int k = 0; k < each; k++) {
      const REAL share = axes ? weight * WEIGHT(along + TAP * k) : weight;
      if (share != 0.0f) sum = ADDED(share, LOAD(source, from + along[TAP * k] * pitch), sum);
    }
  }
  STORE(BASE_OF(T, out0), element(y, at), RESULT(sum, at));
}
