import assert from 'node:assert/strict';
import { test } from 'node:test';
import { App, NestedStack, Stack } from 'aws-cdk-lib';
import { CampaignQueue, InvalidProp, Tidegate } from '../lib/index.js';
import { code, made } from './support.js';

const one = (name: string, weight = 1) => ({ name, weight });
const many = (count: number) => Array.from({ length: count }, (_, index) => one(`campaign-${index}`));

/** Props that cannot be, and what the error must say of each: prop, value, what is allowed. */
const REFUSED: [object, string, string, string][] = [
  [{ name: '1st' }, 'name', '"1st"', 'a letter first'],
  [{ name: 'a'.repeat(55) }, 'name', '"aaa', '1 to 54'],
  [{ campaigns: [] }, 'campaigns', '[]', 'at least one'],
  [{ campaigns: [one('a b')] }, 'campaigns[0].name', '"a b"', 'letters, digits, - and _'],
  [{ campaigns: [one('a'), one('express')] }, 'campaigns[1].name', '"express"', 'not express, merge'],
  [{ campaigns: [one('a'), one('a')] }, 'campaigns[1].name', '"a"', 'each name once'],
  [{ name: 'a'.repeat(40), campaigns: [one('b'.repeat(31))] }, 'campaigns[0].name', '"bbb', 'at most 80'],
  [{ campaigns: [one('a', 1.5)] }, 'campaigns[0].weight', '1.5', 'a whole number from 0 to 10000'],
  [{ campaigns: [one('a', -1)] }, 'campaigns[0].weight', '-1', 'from 0 to 10000'],
  [{ campaigns: [one('a', 0), one('b', 0)] }, 'campaigns[].weight', '[0,0]', 'not all 0'],
  [{ campaigns: [one('a', 9999), one('b', 2)] }, 'campaigns[].weight', '[9999,2]', 'at most 10000'],
  [{ campaigns: [{ ...one('a'), tenant: 'a b' }] }, 'campaigns[0].tenant', '"a b"', 'letters, digits, - and _'],
  [{ campaigns: many(30) }, 'campaigns', '"30 campaigns"', 'use campaignList: \'tags\''],
  [{ campaignList: 'list' }, 'campaignList', '"list"', 'environment, tags, ledger'],
  [{ mode: 'both' }, 'mode', '"both"', 'merge, direct'],
  [{ unsent: 'drop' }, 'unsent', '"drop"', 'timeout, release'],
  [{ daily: 'half' }, 'daily', '"half"', 'full, spread'],
  [{ dailyReserve: '100%' }, 'dailyReserve', '"100%"', 'recipients such as 500'],
  [{ deduplication: 'on' }, 'deduplication', '"on"', 'off, resend, park'],
  [{ feedback: true }, 'feedback', 'true', 'off, count, hold'],
  [{ schedule: 'OFF' }, 'schedule', '"OFF"', 'ENABLED, DISABLED'],
  [{ expressQueue: 'yes' }, 'expressQueue', '"yes"', 'true, false'],
  [{ reservedConcurrency: 9 }, 'reservedConcurrency', '9', '0, or 10 to 1000'],
  [{ logLevel: 'a b' }, 'logLevel', '"a b"', 'directives'],
  [{ alarmEmail: 'ops' }, 'alarmEmail', '"ops"', 'one e-mail address'],
  [{ endpointUrl: 'localhost' }, 'endpointUrl', '"localhost"', 'a URL'],
  [{ allowedSenders: [] }, 'allowedSenders', '[]', 'at least one'],
  [{ allowedSenders: ['example.org'] }, 'allowedSenders[0]', '"example.org"', '*@domain'],
  [{ senderIdentityArns: ['example.org'] }, 'senderIdentityArns[0]', '"example.org"', 'such as arn:aws:ses:'],
  [{ channel: 'fax' }, 'channel', '"fax"', 'email, sms'],
  [{ origins: ['two words'] }, 'origins[0]', '"two words"', 'such as +12065550100'],
  [{ allowedCountries: ['DE'] }, 'allowedCountries[0]', '"DE"', 'such as +1,+49'],
  [{ campaignFloor: '91%' }, 'campaignFloor', '"91%"', '0% to 90%'],
  [{ limits: 'gmail.com=10' }, 'limits', '"gmail.com=10"', 'DOMAIN+DOMAIN=NUMBER/s'],
  [{ limits: Array(7).fill('a.b=1/s').join(',') }, 'limits', '"a.b=1/s,', 'up to six of'],
  [{ limits: `${'a'.repeat(398)}=1/s` }, 'limits', '"aaa', 'at most 400 characters'],
  [{ backPressureBusy: 'depth=4' }, 'backPressureBusy', '"depth=4"', 'off, or one to three'],
  [{ backPressureOverloaded: 'age=1h,' }, 'backPressureOverloaded', '"age=1h,"', 'off, or one to three'],
  [{ deferral: 'on' }, 'deferral', '"on"', 'true, false'],
  [{ sharedBucket: { url: 'host' } }, 'sharedBucket.url', '"not shown', 'rediss://HOST or a dynamic reference'],
  [{ sharedBucket: { url: 7 } }, 'sharedBucket.url', '"not shown', 'or a dynamic reference'],
  [{ sharedBucket: { url: 'http://u:secret@host' } }, 'sharedBucket.url', '"not shown', 'redis://HOST'],
  [{ sharedBucket: { url: 'redis://a', lost: 'shut' } }, 'sharedBucket.lost', '"shut"', 'closed, open'],
  [{ sharedBucket: { url: 'redis://a', prefix: 'a b' } }, 'sharedBucket.prefix', '"a b"', '1 to 32 letters'],
  [{ sharedBucket: { url: 'redis://a', securityGroups: [] } }, 'sharedBucket.vpc', 'undefined', 'securityGroups'],
  [{ code: undefined }, 'code', 'undefined', 'this package lacks poller-arm64.zip'],
  [{ code: undefined, channel: 'sms' }, 'code', 'undefined', 'this package lacks poller-arm64-sms.zip'],
];
/** Each number's range; one step beyond either end is refused. */
const RANGES: [string, number, number, number][] = [
  ['maxAttempts', 1, 100, 1], ['idleWakeSeconds', 1, 60, 1],
  ['quotaPerSecond', 0.001, 10_000, 0.0001], ['rateMargin', 0.005, 0.5, 0.001],
  ['maxInFlight', 1, 800, 1], ['deduplicationDays', 1, 90, 1], ['breakerShare', 0.01, 1, 0.001],
  ['breakerSeconds', 15, 3600, 1],
  ['bounceShare', 0.001, 1, 0.0001],
  ['complaintShare', 0.0001, 1, 0.00001],
  ['pollerMemory', 128, 10_240, 1],
  ['schedulerMemory', 128, 10_240, 1],
  ['ageAlarmSeconds', 60, 1_209_599, 1],
];

function refusal(props: object): string {
  try {
    made(props);
  } catch (error) {
    assert.ok(error instanceof InvalidProp, String(error));
    return error.message;
  }
  return assert.fail(`${JSON.stringify(props)} was accepted`);
}

test('what cannot be is refused with its prop, its value, and what is allowed', () => {
  for (const [props, prop, value, allowed] of REFUSED) {
    const message = refusal(props);
    assert.ok(message.startsWith(`${prop} is ${value}`), message);
    assert.ok(message.includes(allowed), message);
  }
});

test('each number is taken from end to end of its range, and not beyond', () => {
  for (const [prop, least, most, step] of RANGES) {
    made({ [prop]: least });
    made({ [prop]: most });
    for (const beyond of [least - step, most + step, Number.NaN]) {
      const message = refusal({ [prop]: beyond });
      assert.ok(message.startsWith(`${prop} is `) && message.includes(`from ${least} to ${most}`), message);
    }
  }
});

test('weights that a common divisor brings below the sum are taken', () => {
  made({ campaigns: [one('a', 9990), one('b', 10)] });
  made({ campaigns: [one('a', 10_000), one('b', 10_000)] });
});

test('campaigns that would not fit into the environment are refused with the way out, and only where they stand in it', () => {
  made({ campaigns: many(20) });
  assert.match(refusal({ campaigns: many(21) }), /^campaigns is "21 campaigns", allowed: 20 in the poller's environment.*'tags'/);
  made({ campaigns: many(30), campaignList: 'tags' });
  made({ campaigns: many(30), campaignList: 'ledger' });
});

test('a nested stack has no name at synthesis, and needs one', () => {
  const nested = () => new NestedStack(new Stack(new App(), 'outer'), 'inner');
  const props = { campaigns: [one('a')], code: code() };
  assert.throws(() => new Tidegate(nested(), 'Mail', props), /^InvalidProp: name is .*nested stack/);
  new Tidegate(nested(), 'Mail', { ...props, name: 'mail' });
});

test('a campaign\'s own queue is checked as well', () => {
  const stack = new Stack(new App(), 'other');
  const refused = (id: string, props: object) => assert.throws(
    () => new CampaignQueue(stack, id, { tidegate: 'mail', campaign: one('a'), ...props }), InvalidProp,
  );
  refused('name', { tidegate: 'a_b' });
  refused('campaign', { campaign: one('merge') });
  refused('weight', { campaign: one('a', 10_001) });
  refused('age', { ageAlarmSeconds: 1 });
  refused('priority', { priority: 'normal' });
});
