// The maximum of each of a number of bins of regions (max_roi_pool_ref.cl), float: the rows under a bin are compared once for
// all bins beside it, sixteen columns at a time, then columns.
//
// Grid: a work-item for each block of channels of a region, n of them. table: blocks of channels, channels of a block, channels,
// height and width of x, rows and columns of y, images. All tensors are dense; x has at most WIDTH columns, y at most BINS.
// Exact, NaN wins; regions fall where those of max_roi_pool_ref do.
#include "tensor.clh"
#include "roi_bins.clh"

#define WIDTH 2048
#define BINS 64
#define BEST(v, all) ((v) > (all) || (v) != (v) ? (v) : (all))

__kernel void max_roi_pool_rows(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table,
                                const float scale) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int r = id / table[0], first = id % table[0] * table[1], channels = table[2], height = table[3], width = table[4];
  const int rows = table[5], columns = table[6];
  __global const float* region = BASE_OF(const float, in1) + 5 * r;
  const int image = clamp((int)region[0], 0, table[7] - 1);
  int2 across[BINS];
  int left = width, right = 0;
  for (int j = 0; j < columns; j++) {
    across[j] = roi_bin(region[1] * scale, region[3] * scale, columns, j, width);
    if (across[j].x < across[j].y) left = min(left, across[j].x), right = max(right, across[j].y);
  }
  const int plane = height * width;
  __global const float* x = BASE_OF(const float, in0) + ((long)image * channels + first) * plane;
  __global float* y = BASE_OF(float, out0) + ((long)r * channels + first) * rows * columns;
  float line[WIDTH];
  for (int i = 0; i < rows; i++) {
    const int2 down = roi_bin(region[2] * scale, region[4] * scale, rows, i, height);
    for (int c = 0; c < min(table[1], channels - first); c++) {
      __global const float* from = x + c * plane;
      int at = left;
      for (; at + 16 <= right && down.x < down.y; at += 16) {
        float16 most = -INFINITY;
        for (int k = down.x; k < down.y; k++) {
          const float16 v = vload16(0, from + k * width + at);
          most = BEST(v, most);
        }
        vstore16(most, 0, line + at);
      }
      for (; at < right; at++) {
        float most = -INFINITY;
        for (int k = down.x; k < down.y; k++) most = BEST(from[k * width + at], most);
        line[at] = most;
      }
      for (int j = 0; j < columns; j++) {
        float most = -INFINITY;
        for (int k = across[j].x; k < across[j].y; k++) most = BEST(line[k], most);
        y[(c * rows + i) * columns + j] = down.x < down.y && across[j].x < across[j].y ? most : 0.0f;
      }
    }
  }
}
