// Convolution of any number of spatial axes, with groups, of 8-bit integers in int, scaled, with bias and post-operations.
//
// x [N, C, spatial] and w [O, C / groups, kernel] of char; start (int), scale and bias (float) [O]; y [N, O, spatial];
// RANK = 2 + spatial axes. y = (start + sum x (w + shift)) * scale + bias; where a window leaves x, it reads
// `zero`.
// Grid: one work-item an element of y, n of them. table: as of convolution_ref.
// T    element type of the post-operations' operands (default float), which LOAD turns into float
// OUT  that of y (default float), to which SATURATE turns a float; STORE_OUT writes one
// Error: 2^-24 |sum * scale| + 2^-24 |y|, plus the post-operations'. The sum is exact.
#ifndef OUT
  #define OUT float
#endif
#ifndef SATURATE
  #define SATURATE(v) (v)
#endif
#ifndef STORE_OUT
  #define STORE_OUT(p, i, v) ((p)[i] = SATURATE(v))
#endif
#include "tensor.clh"
#include "window.clh"

__kernel void quantized_convolution_ref(const int n, const int zero, const int shift, TENSOR(in0), TENSOR(in1), TENSOR(in2),
                                        TENSOR(in3), TENSOR(in4), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* w = x + VIEW;
  __global const int* rest = w + VIEW;
  const int channels = rest[0], taps = rest[2];
  __global const char* source = BASE_OF(const char, in0) + x[0] + at[0] * x[1] + at[1] / rest[1] * channels * x[2];
  __global const char* weights = BASE_OF(const char, in1) + w[0] + at[1] * w[1];
  int sum = BASE_OF(const int, in2)[at[1]];
  for (int tap = 0; tap < taps; tap++) {
    int from, with;
    const int inside = window_element(tap, rest + 5, at, x, w, &from, &with);
    for (int c = 0; c < channels; c++) sum += (inside ? source[from + c * x[2]] : zero) * (weights[with + c * w[2]] + shift);
  }
  const float v = fma((float)sum, BASE_OF(const float, in3)[at[1]], BASE_OF(const float, in4)[at[1]]);
  STORE_OUT(BASE_OF(OUT, out0), element(y, at), POST_ALL(v, at));
}
