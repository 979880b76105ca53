// Convolution of any number of spatial axes, with groups, bias and post-operations, on tensors of floats.
//
// x [N, C, spatial], w [O, C / groups, kernel], bias [O] or none, y [N, O, spatial]; RANK = 2 + spatial axes.
// Grid: one work-item an element of y, n of them. table: dims of y, views of y, x and w, channels a group, outputs a
// group, taps, origin and pitch of the bias (-1, 0: none), then for each spatial axis: size of x, of the kernel, stride,
// dilation, padding before.
// APART (0): weights of -0 are not there, so that what is not finite does not count where they would meet it.
// Padding is zeros, which are multiplied: a weight that is not finite makes NaN of them.
// Error: k * 2^-24 * sum |x w| for a sum of k products, accumulated in float, plus the post-operations'.
#include "tensor.clh"
#include "window.clh"

#ifndef APART
  #define APART 0
#endif

__kernel void convolution_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0),
                              __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* w = x + VIEW;
  __global const int* rest = w + VIEW;
  const int channels = rest[0], taps = rest[2];
  __global const T* source = BASE_OF(const T, in0) + x[0] + at[0] * x[1] + at[1] / rest[1] * channels * x[2];
  __global const T* weights = BASE_OF(const T, in1) + w[0] + at[1] * w[1];
  REAL sum = rest[3] >= 0 ? LOAD(BASE_OF(const T, in2), rest[3] + at[1] * rest[4]) : 0.0f;
  for (int tap = 0; tap < taps; tap++) {
    int from, with;
    const int inside = window_element(tap, rest + 5, at, x, w, &from, &with);
    for (int c = 0; c < channels; c++) {
      const REAL by = LOAD(weights, with + c * w[2]);
      const REAL of = inside ? LOAD(source, from + c * x[2]) : 0.0f;
      if (!APART || by != 0.0f || !signbit(by)) sum = fma(of, by, sum);
    }
  }
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
}
