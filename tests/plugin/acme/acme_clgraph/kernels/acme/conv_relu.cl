// y = max(bias[o] + sum over c, k of w[o, c, k] * x[n, c, y * stride + k * dilation - pad], 0)
//
// Grid: one work-item an element of y [N, O, H, W], n of them. table: N O H W, C / groups KH KW, input height and width,
// O / groups, strides, dilations, pads before, then the views of y, x and w.
// Error: one rounding a product and a sum, C / groups * KH * KW of them.
#include "tensor.clh"

__kernel void conv_relu(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[4];
  coordinates(id, table, 0, 4, at);
  const int channels = table[4], kh = table[5], kw = table[6], height = table[7], width = table[8], o_group = table[9];
  __global const int* window = table + 10;
  __global const int* y = table + 16;
  __global const int* x = y + VIEW;
  __global const int* w = x + VIEW;
  const int first = at[1] / o_group * channels;
  float sum = in2_offset < 0 ? 0.0f : BASE_OF(const float, in2)[at[1]];
  for (int c = 0; c < channels; c++)
    for (int i = 0; i < kh; i++)
      for (int j = 0; j < kw; j++) {
        const int row = at[2] * window[0] + i * window[2] - window[4], column = at[3] * window[1] + j * window[3] - window[5];
        if (row < 0 || row >= height || column < 0 || column >= width) continue;
        const int from[4] = {at[0], first + c, row, column}, tap[4] = {at[1], c, i, j};
        sum += BASE_OF(const float, in0)[element(x, from)] * BASE_OF(const float, in1)[element(w, tap)];
      }
  BASE_OF(float, out0)[element(y, at)] = fmax(sum, 0.0f);
}
