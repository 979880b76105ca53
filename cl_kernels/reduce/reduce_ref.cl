// Sums, means, extrema and norms over some axes, with post-operations, on tensors of floats.
//
// Grid: one work-item an element of y, n of them. The axes that stay are counted first, `kept` of them, then those
// reduced, `count` elements. table: dims, view of y (pitch 0 along reduced axes), view of x, kept, count, function: 0 sum,
// 1 mean, 2 max, 3 min, 4 prod, 5 l1, 6 l2, 7 sum of squares, 8 log of the sum, 9 log of the sum of exponentials.
// Sums are made of sums of 64. Error: (64 + count / 64) * 2^-24 * sum |x| for sums, relative count * 2^-24 for products,
// exact for extrema; log, sqrt and exp add the device's 3 ulp each.
#include "tensor.clh"

__kernel void reduce_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  __global const T* source = BASE_OF(const T, in0);
  const int kept = rest[0], count = rest[1], function = rest[2];
  coordinates(id, table, 0, kept, at);
  REAL total = 0.0f, part = 0.0f, product = 1.0f, most = -INFINITY, least = INFINITY;
  for (int i = 0; i < count; i++) {
    coordinates(i, table, kept, RANK, at);
    const REAL v = LOAD(source, element(x, at));
    part += function == 5 ? fabs(v) : function == 6 || function == 7 ? v * v : v;
    product *= v;
    most = v > most || v != v ? v : most;
    least = v < least || v != v ? v : least;
    if (i % 64 == 63) {
      total += part;
      part = 0.0f;
    }
  }
  REAL r = total + part;
  if (function == 9) {
    const REAL top = isfinite(most) ? most : 0.0f;
    total = part = 0.0f;
    for (int i = 0; i < count; i++) {
      coordinates(i, table, kept, RANK, at);
      part += exp(LOAD(source, element(x, at)) - top);
      if (i % 64 == 63) {
        total += part;
        part = 0.0f;
      }
    }
    r = log(total + part) + top;
  }
  r = function == 1 ? r / (REAL)count : function == 2 ? most : function == 3 ? least : r;
  r = function == 4 ? product : function == 6 ? sqrt(r) : function == 8 ? log(r) : r;
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}
