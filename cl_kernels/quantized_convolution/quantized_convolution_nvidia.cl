// Convolution of 8-bit integers with groups, scaled, with bias and post-operations, for NVIDIA GPUs on byxf.
//
// x [N, C, H, W] and y [N, O, H, W] in byxf, x and w [O][kh][kw][C / groups] of char; start (int), scale and bias (float)
// [O]. y = (start + sum x w) * scale + bias; where a window leaves x, it reads a zero point, which `edge` holds 16 times.
// An implicit matrix product: its rows are the pixels of all images, its columns the outputs of a group, its k the taps
// times the channels. C of a group is a multiple of 16, O of a group of 4. RANK = 5: n, y, x, block, channel.
// Grid: (tiles * TILE_ITEMS, parts of k, groups), groups of TILE_ITEMS; a group makes TILE_ROWS pixels of TILE_COLUMNS outputs
// from its part of k. Where there are several parts (PARTS, default 0), the sums go to `parts` [part][n][y][x][O], for
// quantized_convolution_sum; else y is written.
// table: views of y and x, channels and outputs of a group, taps, images, height and width of y, height and width of x,
// strides, pads before; taps: offset in x and place along y and x of each.
// T, OUT  as of quantized_end.clh
// Error: 2^-24 |sum * scale| + 2^-24 |y|, plus the post-operations'. The sum is exact.
#define RANK 5
#ifndef PRODUCT
  #define PRODUCT PRODUCT_S8
#endif
#include "quantized_end.clh"
#include "ptx.clh"
#include "ptx_75.clh"
#define FINISH(sum, at, channel) STORE_SCALED(table, sum, at, channel)
#include "nvidia_convolution.clh"
// What is not inside is `edge`: zeros of w meet it behind the last term, and rows beyond the last pixel are not written.
#define COPY_X(to, from, inside) COPY16(to, inside ? from : outside, 16)
#include "nvidia_taps.clh"

__kernel __attribute__((reqd_work_group_size(TILE_ITEMS, 1, 1))) void quantized_convolution_nvidia(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(in4), TENSOR(out0), TENSOR(parts),
    __global const int* table, __global const int* taps, __global const int* edge, POST_PARAMETERS) {
  __local __attribute__((aligned(128))) char memory[TILE_LOCAL];
  __global const int* x = table + VIEW;
  __global const int* rest = x + VIEW;
  const int blocks = rest[0] / CHUNK, outputs = rest[1], units = rest[2] * blocks, pixels = rest[3] * rest[4] * rest[5];
  const int id = get_local_id(0), warp = id / 32, lane = id % 32, group = get_group_id(2);
  const int2 start = tile_start(pixels, outputs), steps = tile_steps(units);
  const int p0 = start.x, o0 = start.y;

  // What this work-item copies: chunk `id % CHUNKS` of every TILE_STRIDE-th row.
  const int row = id / CHUNKS, chunk = id % CHUNKS, place = PLACE(row, chunk);
  __global const char* source = BASE_OF(const char, in0) + x[0] + group * rest[0];
  __global const uint4* weights = BASE_OF(const uint4, in1) + ((long)group * outputs + o0 + row) * units;
  __global const char* outside = (__global const char*)edge;
  int top[ROWS_EACH], left[ROWS_EACH], base[ROWS_EACH];
  tile_windows(p0 + row, pixels, x, rest, top, left, base);
  const uint columns = tile_there(o0 + row, outputs, COLUMNS_EACH);
  TILE_TAPS(steps.x)

  tile_sums sums;
  tile_clear(sums);
  TILE_PIPELINE(sums, memory, steps.y, warp, lane);
  CONVOLUTION_WRITE(sums, memory);
}
