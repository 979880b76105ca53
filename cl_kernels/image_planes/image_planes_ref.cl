// y[n][c][i][j] = colours[c][K] + sum_k colours[c][k] r[k], with r the weighted sum of pixels of x around (i, j), 0 to 255.
//
// Grid: one work-item a pixel of y, n of them. in0: x, bytes; in1: taps: how many a row and a column of y have, then of
// each row and each column the first pixel and their weights; in2: colours; padding: what there is where weights are 0.
// table: rows and columns of y, colours of y and of x, views of x and y.
// Error: (taps of a row + taps of a column + 2 K + 4) * 2^-24 * sum_k |colours[c][k]| sum |weight| 255.
#include "tensor.clh"

__kernel void image_planes_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0),
                               __global const int* table, const float padding) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int j = id % table[1], i = id / table[1] % table[0], image = id / table[1] / table[0];
  const int made = table[2], depth = table[3];
  __global const int *x = table + 4, *y = x + VIEW;
  __global const float* taps = BASE_OF(const float, in1);
  const int rows = (int)taps[0], columns = (int)taps[1];
  __global const float* down = taps + 2 + i * (rows + 1);
  __global const float* along = taps + 2 + table[0] * (rows + 1) + j * (columns + 1);
  __global const uchar* from =
      BASE_OF(const uchar, in0) + x[0] + image * x[1] + (int)down[0] * x[2] + (int)along[0] * x[3];
  float r[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int b = 0; b < columns; b++) {
    for (int k = 0; k < depth; k++) {
      float sum = 0.0f;
      for (int a = 0; a < rows; a++) sum = fma(down[1 + a], from[a * x[2] + b * x[3] + k * x[4]] - padding, sum);
      r[k] = fma(along[1 + b], sum, r[k]);
    }
  }
  __global float* to = BASE_OF(float, out0) + y[0] + image * y[1] + i * y[3] + j * y[4];
  for (int c = 0; c < made; c++) {
    __global const float* colours = BASE_OF(const float, in2) + c * (depth + 1);
    float sum = colours[depth];
    for (int k = 0; k < depth; k++) sum = fma(colours[k], clamp(r[k] + padding, 0.0f, 255.0f), sum);
    to[c * y[2]] = sum;
  }
}
