// Bottleneck of blocked tensors (b_fs_yx_fsv16): 1x1 convolution, depthwise convolution, 1x1 convolution in one pass over
// rows. Either of the 1x1 convolutions may be missing.
//
// A ticket is a strip of output rows of one image; without a second 1x1 convolution, of a range of groups of hidden
// blocks, too. For each group of hidden blocks it walks down its strip: expanded rows lie in a ring in scratch, with zeros
// where windows reach beyond the input, and are filtered as soon as there are enough of them. The ring has as many rows as
// a window. The filtered rows of all groups lie behind the ring for the second 1x1 convolution. Rows under the windows of
// two strips are computed twice.
//
// inp, in_n, in_c, in_y     pixel (0, 0) of the input, without expansion the window of output pixel (0, 0), then in a halo
//                           as wide as windows reach; pitches in floats
// in_height, in_width       of the input;  channels: of the input
// expands, e_...            whether there is a first 1x1 convolution; its weights, bias and instances as in conv_fsv16.cl,
//                           e_last_... those of its last group
// weights, bias             of the depthwise convolution: [block][ky][kx][16], 16 floats a block
// kernel_y, step_y, pad_top, pad_left   its window rows, floats from one output row's window to the next, and zeros
// stride_y, step_x, kernel_x, id        its strides (in rows, in floats), window columns, and instance
// hidden, blocks, hidden_lanes          channels between, their blocks, channels of the last one
// projects, p_...           whether there is a second 1x1 convolution; as e_...
// ring_c, ring_y            floats of the ring from one block, row to the next
// ring_width                pixels of a row of the ring
// rows_at, rows_c, rows_y   the filtered rows: their place in scratch in floats, pitches
// e_posts, d_posts          operations of the list that belong to the first and to the depthwise convolution
// groups, group_blocks      groups of hidden blocks, blocks of each but the last
// strips, strip_rows, tiers, tier_groups     tickets of an image: strips by ranges of groups
// out, res, out_n, out_c, out_y, res_n, res_c, res_y, height, width, top, bottom, left, right, out_blocks, lanes
//                           as in conv_fsv16.cl
// e_..., d_..., low .. stepped   the three ends, as in float_end.clh
//
// Error: as in micro_conv.cl and micro_depthwise.cl, each in terms of what it reads.
#include "conv_chunks.clh"
#include "float_end.clh"
#include "fsv16.clh"

// A 1x1 convolution of rows in scratch or memory: its instances, parts of a row, pitches and end. A row is `alike` register
// blocks of `wide` pixels by instance `id`, or, where that is 0, put together of several widths.
typedef struct {
  long widths, ids_0, ids_1;
  int chunks, chunk_width, width, channels, in_c, out_c, res_c, alike, wide, id;
  const float_end* end;
} bottleneck_points;

static int bottleneck_instance(const bottleneck_points* p, const int wide) {
  return (int)((wide < 8 ? p->ids_0 : p->ids_1) >> (8 * (wide & 7))) & 255;
}

// Find, once for all rows, what they have in common.
static void bottleneck_alike(bottleneck_points* p) {
  const chunk_run run = chunks_alike(0, p->width, p->chunks, p->chunk_width, p->width);
  const bool whole = run.width * run.count == p->width && ((int)(p->widths >> (4 * min(run.width, 15))) & 15) == run.width;
  p->wide = run.width;
  p->id = bottleneck_instance(p, run.width);
  p->alike = whole ? run.count : 0;
}

// Compute one row of `nb` blocks of output channels.
NOINLINE static void bottleneck_point_row(const bottleneck_points* p, __global const float* in,
                                          __global const float* weights, __global const float* bias,
                                          __global const float* res, __global float* out, const int nb) {
  if (p->alike) {
    const int step = p->wide * 16;
    micro_conv(p->id, in, weights, bias, res, out, nb, p->channels, 0, 1, 1, p->in_c, 0, 0, 16, p->out_c, p->res_c, p->alike,
               step, step, step, p->end, 0, weights, 0);
    return;
  }
  for (int x0 = 0; x0 < p->width;) {
    const chunk_run run = chunks_alike(x0, p->width, p->chunks, p->chunk_width, p->width);
    for (int at = 0; at < run.width;) {
      const int most = min(run.width - at, 15), wide = (int)(p->widths >> (4 * most)) & 15, x = x0 + at;
      micro_conv(bottleneck_instance(p, wide), in + x * 16, weights, bias, res ? res + x * 16 : 0, out + x * 16, nb,
                 p->channels, 0, 1, 1, p->in_c, 0, 0, 16, p->out_c, p->res_c, run.count, run.width * 16, run.width * 16,
                 run.width * 16, p->end, 0, weights, 0);
      at += wide;
    }
    x0 += run.width * run.count;
  }
}

// Write `count` vectors of zeros.
NOINLINE static void bottleneck_clear(__global float* to, const int count) {
  for (int i = 0; i < count; i++) STORE16(to + i * 16, (float16)(0.0f));
}

// Expand the input's row y into a row of the ring: of `nb` blocks from `block` on.
static void bottleneck_expand(__global const bottleneck_fsv16_desc* d, __global char** banks, const bottleneck_points* e,
                              __global float* row, __global const post_step* post, const int n, const int block,
                              const int nb, const int y) {
  const int before = d->pad_left, width = d->in_width;
  const bool inside = y >= 0 && y < d->in_height;
  if (inside)
    bottleneck_point_row(e, AT(const float, banks, d->inp) + (long)n * d->in_n + (long)y * d->in_y,
                         AT(const float, banks, d->e_weights) + (long)(block / d->group_blocks) * d->e_weight_group,
                         AT(const float, banks, d->e_bias) + block * 16, 0, row + before * 16, nb);
  for (int b = 0; b < nb; b++, row += d->ring_c) {
    if (inside && d->e_posts)
      post_row(post, d->e_posts, banks, row + before * 16, n, block + b, y, 0, width,
               block + b == d->blocks - 1 ? d->hidden_lanes : 16, 1);
    bottleneck_clear(row, inside ? before : d->ring_width);
    bottleneck_clear(row + (before + width) * 16, inside ? d->ring_width - before - width : 0);
  }
}

// Filter output row y of `nb` blocks from `block` on, whose windows begin at `in`, into `out`; `turn` of their rows lie
// there, the others at the ring's begin.
static void bottleneck_filter(__global const bottleneck_fsv16_desc* d, __global char** banks, __global const float* in,
                              const int in_c, const int in_y, const int turn, __global float* out,
                              __global const post_step* post, const int posts, const int n, const int block, const int nb,
                              const int y, const float_end* end) {
  __global const float* weights = AT(const float, banks, d->weights) + (long)block * d->kernel_y * d->kernel_x * 16;
  __global const float* bias = AT(const float, banks, d->bias) + block * 16;
  for (int b = 0; b < nb; b++, in += in_c, out += d->rows_c) {
    micro_depthwise(d->id, in, weights + (long)b * d->kernel_y * d->kernel_x * 16, bias + b * 16, out, d->kernel_y,
                    d->kernel_x, in_y, turn, d->kernel_y * in_y, 16, d->step_x, d->width, 1, 0, 0, end);
    if (posts)
      post_row(post, posts, banks, out, n, block + b, y, 0, d->width,
               block + b == d->blocks - 1 ? d->hidden_lanes : 16, 1);
    if (!d->projects)
      zero_halo(out - (long)y * d->out_y, d->out_y, y, 0, d->width, d->height, d->width, d->top, d->bottom, d->left,
                d->right);
  }
}

// Project `count` filtered rows to output rows from y on.
static void bottleneck_project(__global const bottleneck_fsv16_desc* d, __global char** banks, __global const float* rows,
                               __global const post_step* post, const int posts, const int n, const int y,
                               const int count) {
  const float_end end = FLOAT_END_OF(d);
  const int width = d->width;
  for (int g = 0; g < d->p_groups; g++) {
    const bool last = g == d->p_groups - 1;
    bottleneck_points p = {last ? d->p_last_widths : d->p_widths, last ? d->p_last_ids_0 : d->p_ids_0,
                           last ? d->p_last_ids_1 : d->p_ids_1, d->p_chunks, d->p_chunk_width, d->width,
                           d->hidden, d->rows_c, d->out_c, d->res_c, 0, 0, 0, &end};
    bottleneck_alike(&p);
    const int block = g * d->p_nb, nb = min(d->p_nb, d->out_blocks - block);
    __global const float* weights = AT(const float, banks, d->p_weights) + (long)g * d->p_weight_group;
    __global const float *bias = AT(const float, banks, d->p_bias) + block * 16, *res = 0;
    if (d->res != CLGRAPH_NULL) res = AT(const float, banks, d->res) + (long)n * d->res_n + (long)block * d->res_c;
    __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
    for (int r = 0; r < count; r++) {
      bottleneck_point_row(&p, rows + (long)r * d->rows_y, weights, bias, res ? res + (long)(y + r) * d->res_y : 0,
                           out + (long)(y + r) * d->out_y, nb);
      for (int b = 0; b < nb; b++) {
        __global float* plane = out + (long)b * d->out_c;
        if (posts)
          post_row(post, posts, banks, plane + (long)(y + r) * d->out_y, n, block + b, y + r, 0, width,
                   block + b == d->out_blocks - 1 ? d->lanes : 16, 1);
        zero_halo(plane, d->out_y, y + r, 0, width, d->height, width, d->top, d->bottom, d->left, d->right);
      }
    }
  }
}

static void bottleneck_fsv16(__global const bottleneck_fsv16_desc* d, __global char** banks, __global char* scratch,
                             const int ticket, __global const post_step* post, const int posts) {
  const int n = ticket / (d->strips * d->tiers), within = ticket - n * d->strips * d->tiers;
  const int tier = within / d->strips, y0 = (within - tier * d->strips) * d->strip_rows;
  const int y1 = min(y0 + d->strip_rows, d->height), last_group = min((tier + 1) * d->tier_groups, d->groups);
  const int ring_y = d->ring_y, ring_rows = d->kernel_y, before = d->e_posts, behind = before + d->d_posts;
  __global float *ring = (__global float*)scratch, *rows = ring + d->rows_at;
  __global float* out = d->projects ? rows : AT(float, banks, d->out) + (long)n * d->out_n + (long)y0 * d->out_y;
  const float_end e_end = FLOAT_END_AT(d, e_);
  const float_end d_end = FLOAT_END_AT(d, d_);

  for (int g = tier * d->tier_groups; g < last_group; g++) {
    const int block = g * d->group_blocks, nb = min(d->group_blocks, d->blocks - block);
    __global float* to = out + (long)block * d->rows_c;
    const bool last = g == d->groups - 1;
    bottleneck_points e = {last ? d->e_last_widths : d->e_widths, last ? d->e_last_ids_0 : d->e_ids_0,
                           last ? d->e_last_ids_1 : d->e_ids_1, d->e_chunks, d->e_chunk_width, d->in_width, d->channels,
                           d->in_c, d->ring_c, 0, 0, 0, 0, &e_end};
    if (d->expands) bottleneck_alike(&e);
    // Input rows before `ready` are in the ring, that of the window's first at `turned`.
    int ready = y0 * d->stride_y - d->pad_top, turned = 0;
    for (int y = y0; y < y1; y++, to += d->rows_y, turned = (turned + d->stride_y) % ring_rows) {
      if (!d->expands) {
        bottleneck_filter(d, banks,
                          AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c +
                            (long)y * d->stride_y * d->in_y,
                          d->in_c, d->in_y, ring_rows, to, post + before, d->d_posts, n, block, nb, y, &d_end);
        continue;
      }
      const int first = y * d->stride_y - d->pad_top, end = first + ring_rows, turn = ring_rows - turned;
      for (int row = max(ready, first); row < end; row++) {
        const int place = row - first < turn ? row - first + turned : row - first - turn;
        bottleneck_expand(d, banks, &e, ring + (long)place * ring_y, post, n, block, nb, row);
      }
      ready = end;
      bottleneck_filter(d, banks, ring + (long)turned * ring_y, d->ring_c, ring_y, turn, to, post + before, d->d_posts, n,
                        block, nb, y, &d_end);
    }
  }
  if (d->projects) bottleneck_project(d, banks, rows, post + behind, posts - behind, n, y0, y1 - y0);
}
