// Convolution along the one axis of a plain tensor of one channel (a waveform) into blocks of 16: a product of matrices,
// whose left side has the windows as rows. They overlap, and lie where the input does.
//
// A ticket is a run of pixels of one image by a run of groups of 64 output channels. It copies the input under its windows,
// zeros around it, into the worker's scratch, where the products come behind it, and moves them to blocks.
//
// inp, weights, bias, out     weights: [groups][taps][64], zeros behind the last channel;  bias may be CLGRAPH_NULL
// in_n, in_width, pad         pitch of the input from one image to the next, its size, zeros before its first element
// stride, dilation, taps      of the window
// staged                      floats of scratch for the input
// ticket_pixels, spans        pixels of a ticket, tickets of one image side by side
// groups, ticket_groups, tiers     of 64 channels in all, of a ticket, tickets below one another
// blocks, lanes               of 16 output channels, channels in the last one
// nb, widest, first_id        channels / 16 and rows of the widest instance; id of the one-row instance, neighbours follow
// low, high                   bounds of the result
// out_n, out_c, out_y, height, width, top, bottom, left, right: as in conv_fsv16.cl; height is 1
//
// Error as in micro_matmul.cl, with taps products in a sum; one rounding more for the bias.
#include "fsv16.clh"
#include "staged_floats.clh"

static void conv_windows(__global const conv_windows_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int span = ticket % d->spans, tier = ticket / d->spans % d->tiers, n = ticket / d->spans / d->tiers;
  const int x0 = span * d->ticket_pixels, x1 = min(x0 + d->ticket_pixels, d->width);
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  __global float* stage = (__global float*)scratch;
  __global float* sums = stage + d->staged;
  stage_floats(AT(const float, banks, d->inp) + (long)n * d->in_n, d->in_width, x0 * d->stride - d->pad, stage,
            (x1 - x0 - 1) * d->stride + (d->taps - 1) * d->dilation + 1);

  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    __global const float* weights = AT(const float, banks, d->weights) + (long)g * d->taps * 64;
    const int count = min(4, d->blocks - 4 * g);
    for (int x = x0; x < x1;) {
      const int left = x1 - x, pieces = (left + d->widest - 1) / d->widest, rows = (left + pieces - 1) / pieces;
      for (int j = 0; j < 4; j += d->nb)
        micro_matmul(d->first_id + rows - 1, stage + (x - x0) * d->stride, d->stride, d->dilation, weights + j * 16, 64,
                     sums + j * 16, 64, d->nb * 16, d->taps, 0, weights, 0);
      for (int b = 0; b < count; b++) {
        __global float* to = AT(float, banks, d->out) + (long)n * d->out_n + (long)(4 * g + b) * d->out_c + x * 16;
        float16 bias = 0.0f;
        if (d->bias != CLGRAPH_NULL) bias = LOAD16(AT(const float, banks, d->bias) + (4 * g + b) * 16);
        for (int i = 0; i < rows; i++) {
          const float16 sum = LOAD16(sums + i * 64 + b * 16) + bias, v = sum < (float16)(d->low) ? (float16)(d->low) : sum;
          STORE16(to + i * 16, v > (float16)(d->high) ? (float16)(d->high) : v);
        }
      }
      x += rows;
    }
    for (int b = 0; b < count; b++) {
      const int block = 4 * g + b;
      __global float* plane = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
      if (posts)
        post_row(post, posts, banks, plane + x0 * 16, n, block, 0, x0, x1 - x0, block == d->blocks - 1 ? d->lanes : 16,
                 1);
      zero_halo(plane, d->out_y, 0, x0, x1 - x0, 1, d->width, d->top, d->bottom, d->left, d->right);
    }
  }
}
