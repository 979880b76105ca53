// The maximum of each of a number of bins of regions (max_roi_pool_ref.cl), float: the rows under a bin are compared once for
// all bins beside it, sixteen columns at a time, then columns.
//
// A ticket is a run of blocks of channels of regions, in this order. All tensors are dense; x has at most POOLED_WIDTH columns,
// y at most POOLED_BINS. Exact, NaN wins; regions fall where those of max_roi_pool_ref do.
//
// inp, regions, out   x [pictures][channels][height][width]; [n][5]; [n][channels][rows][columns]
// block, blocks       channels of a block, blocks of a region;  count: blocks of all regions
// scale               of regions;  ticket_blocks: blocks of a ticket
#include "tile.clh"
#include "roi_bins.clh"

#define POOLED_WIDTH 2048
#define POOLED_BINS 64
#define BEST(v, all) ((v) > (all) || (v) != (v) ? (v) : (all))

// Block `id`.
NOINLINE static void max_roi_pool_block(__global const max_roi_pool_rows_desc* d, __global char** banks, const int id) {
  const int r = id / d->blocks, first = id % d->blocks * d->block, channels = d->channels, height = d->height;
  const int width = d->width, rows = d->rows, columns = d->columns;
  const float scale = d->scale;
  __global const float* region = AT(const float, banks, d->regions) + 5 * r;
  const int image = clamp((int)region[0], 0, d->pictures - 1);
  int2 across[POOLED_BINS];
  int left = width, right = 0;
  for (int j = 0; j < columns; j++) {
    across[j] = roi_bin(region[1] * scale, region[3] * scale, columns, j, width);
    if (across[j].x < across[j].y) left = min(left, across[j].x), right = max(right, across[j].y);
  }
  const int plane = height * width;
  __global const float* x = AT(const float, banks, d->inp) + ((long)image * channels + first) * plane;
  __global float* y = AT(float, banks, d->out) + ((long)r * channels + first) * rows * columns;
  float line[POOLED_WIDTH];
  for (int i = 0; i < rows; i++) {
    const int2 down = roi_bin(region[2] * scale, region[4] * scale, rows, i, height);
    for (int c = 0; c < min(d->block, channels - first); c++) {
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

static void max_roi_pool_rows(__global const max_roi_pool_rows_desc* d, __global char** banks, __global char* scratch,
                              const int ticket, __global const post_step* post, const int posts) {
  const int begin = ticket * d->ticket_blocks, end = min(begin + d->ticket_blocks, d->count);
  for (int id = begin; id < end; id++) max_roi_pool_block(d, banks, id);
}
#undef POOLED_WIDTH
#undef POOLED_BINS
#undef BEST
